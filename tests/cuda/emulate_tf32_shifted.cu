// Follows the boxes of X of the shifted tiles of float32 on the CPU, with the kernel's own arithmetic: that each lane
// finds the numbers that it multiplies, and that the banks of a warp's lanes are nearly all different ones.
//
// Needs nvcc but no GPU.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "../../ksmm/csrc/cuda/hopper/tf32_launch.cuh"
#include "tensor_element.h"

using namespace ksmm;
using namespace ksmm::hopper;

// Memory is numbered from the multiple of 16 bytes before X on; what is there is its number.
struct Case {
  Problem problem = {};
  Operands operands = {};
  int offset;

  explicit Case(std::mt19937& random) {
    const auto any = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)) + 1; };
    problem.dtype = Dtype::float32, problem.layout = Layout::batch_last;
    problem.a = any(3), problem.b = any(300), problem.c = 4 * any(30), problem.d = any(7), problem.batch = any(700);
    operands.x_stride = problem.batch + any(9) - 1;
    offset = any(4) - 1;
    operands.x = reinterpret_cast<void*>(uintptr_t{1} << 20 | 4u * static_cast<unsigned>(offset));
    operands.y = reinterpret_cast<void*>(uintptr_t{1} << 21);
  }
};

// Most lanes of a warp that meet in a bank.
int most_of_a_bank(const std::vector<int>& words) {
  int most = 0;
  for (int bank = 0; bank < 32; ++bank)
    most = std::max(
        most, static_cast<int>(std::count_if(words.begin(), words.end(), [&](int word) { return word % 32 == bank; })));
  return most;
}

template <class Tile>
bool is_wrong(const Case& given, const Tf32Task& task, const TensorBox& tensor, int i, int j, int n, int k) {
  std::vector<int64_t> stage(Tile::x_bytes / 4, unknown);
  for (int q = 0; q < shifted_classes; ++q)
    for (int strip = 0; strip < Tile::batch / shifted_strip; ++strip) {
      const ShiftedBox box(task, q, j, n + strip * shifted_strip);
      const int place = place_of_box<Tile>(strip, q);
      if (box.column % 4 != 0 || place % 128 != 0) return true;
      for (int at = 0; at < Tile::k / shifted_classes * shifted_pitch; ++at)
        stage.at(static_cast<size_t>(place / 4 + at)) =
            element(tensor, box.column + at % shifted_pitch, k / shifted_classes + at / shifted_pitch, box.long_row, i);
    }
  for (int of_n = 0; of_n < Tile::batch; of_n += 8)
    for (int of_k = 0; of_k < Tile::k; of_k += 4) {
      std::vector<int> words;
      for (int lane = 0; lane < 32; ++lane) {
        const int from =
            static_cast<int>(place_of_shifted<Tile>(task, i, j, lane)) + offset_in_shifted<Tile>(of_n + lane / 4, of_k);
        const int64_t found = stage.at(static_cast<size_t>(from / 4)), row = k + of_k + lane % 4,
                      column = n + of_n + lane / 4;
        const int64_t wanted =
            given.offset + ((i * given.problem.c + row) * given.problem.d + j) * given.operands.x_stride + column;
        if (found == unknown) return true;
        if (row >= given.problem.c ? found != nothing : column < given.problem.batch && found != wanted) return true;
        words.push_back(from / 4);
      }
      if (most_of_a_bank(words) > 2) return true;
    }
  return false;
}

template <class Tile>
void check(const char* name, int cases, std::mt19937& random) {
  int wrong = 0;
  for (int number = 0; number < cases; ++number) {
    const Case given(random);
    const Tf32Task task = task_of<Tile>(given.problem, given.operands);
    const TensorBox tensor = box_of_x<Tile>(given.problem, given.operands);
    bool any = reinterpret_cast<uintptr_t>(begin_of_x<Tile>(given.operands)) % 16 != 0;
    for (int dimension = 1; dimension < tensor.dimensions; ++dimension)
      any |= tensor.sizes[dimension] > 1 && tensor.strides[dimension] % 4 != 0;
    for (int i = 0; i < task.a; ++i)
      for (int j = 0; j < task.d; ++j)
        for (int n = 0; n < given.problem.batch; n += Tile::batch)
          for (int k = 0; k < task.c; k += Tile::k) any |= is_wrong<Tile>(given, task, tensor, i, j, n, k);
    if (any)
      std::printf("a %d, c %d, d %d, batch %lld, stride %lld, offset %d\n", task.a, task.c, task.d,
                  static_cast<long long>(given.problem.batch), static_cast<long long>(given.operands.x_stride),
                  given.offset);
    wrong += any;
  }
  std::printf("%s: %d of %d wrong\n", name, wrong, cases);
  if (wrong > 0) std::exit(1);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s CASES SEED\n", argv[0]);
    return 2;
  }
  std::mt19937 random(static_cast<unsigned>(std::atoi(argv[2])));
  check<Tf32Tile<Access::shifted, 1, 2, 128, false, 32, 32, Arithmetic::parts>>("parts", std::atoi(argv[1]), random);
  check<Tf32Tile<Access::shifted, 1, 2, 64, false, 32, 32, Arithmetic::halves>>("halves", std::atoi(argv[1]), random);
}
