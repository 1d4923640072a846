// Runs the CUDA kernels' own steps on the CPU, block by block and thread by thread, and compares with a plain sum in
// double.
//
// Needs nvcc but no GPU. Built with AddressSanitizer (test_emulation.py does) it also proves that nothing outside the
// operands is read or written: each lives in an allocation of exactly its size.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "../../ksmm/csrc/cuda/simt_family.cuh"
#include "../../ksmm/csrc/cuda/simt_kernel.cuh"

using namespace ksmm;

template <class T, Layout LAYOUT, class Tile>
void emulate_simt(const Task<T>& task) {
  using Steps = SimtSteps<T, LAYOUT, Tile>;
  struct alignas(16) Shared {
    float x[Tile::k * Tile::x_pitch], weight[Tile::k * Tile::weight_pitch];
  };
  auto shared = std::make_unique<Shared>();
  std::vector<typename Steps::Registers> registers(Tile::threads);
  const auto each_thread = [&](auto step) {
    for (int thread = 0; thread < Tile::threads; ++thread) step(registers[thread], thread);
  };
  using R = typename Steps::Registers;
  for (int64_t tile = 0; tile < task.tiles; ++tile) {
    const Origin origin = tile_origin(task, tile, Tile::n, Tile::r, Tile::j);
    each_thread([](R& r, int) { Steps::clear(r); });
    each_thread([&](R& r, int thread) { Steps::load(r, task, origin, 0, thread); });
    for (int64_t k = 0; k < task.c; k += Tile::k) {
      for (float& value : shared->x) value = NAN;
      for (float& value : shared->weight) value = NAN;
      each_thread([&](R& r, int thread) { Steps::stage(r, task, shared->x, shared->weight, thread); });
      if (k + Tile::k < task.c)
        each_thread([&](R& r, int thread) { Steps::load(r, task, origin, k + Tile::k, thread); });
      each_thread([&](R& r, int thread) { Steps::multiply(r, shared->x, shared->weight, thread); });
    }
    each_thread([&](R& r, int thread) { Steps::store(r, task, origin, thread); });
  }
}

// An operand of exactly `size` elements, at an address that is only element-aligned when `shift` is 1.
template <class T>
struct Buffer {
  explicit Buffer(int64_t size, int shift = 0)
      : memory(std::malloc((size + shift) * sizeof(Bits<T>))), data(static_cast<Bits<T>*>(memory) + shift) {}
  ~Buffer() { std::free(memory); }
  Buffer(const Buffer&) = delete;
  void* memory;
  Bits<T>* data;
};

struct Case {
  int64_t a, b, c, d, batch;
  Layout layout;
  int64_t padding;  // x_stride beyond the row's length
  int shift;        // elements by which the operands' addresses are off alignment
  int order;        // of the weights in memory: 0 = (a, d, b, c), 1 = (a, b, c, d), 2 = (d, c, b, a), 3 = spread out
};

void weight_strides(const Case& s, int64_t* strides) {
  const int64_t orders[4][4] = {{s.d * s.b * s.c, s.c, 1, s.b * s.c},
                                {s.b * s.c * s.d, s.c * s.d, s.d, 1},
                                {1, s.a, s.a * s.b, s.a * s.b * s.c},
                                {s.b * s.c * s.d * 3, s.c * s.d * 3, s.d * 3, 3}};
  for (int dim = 0; dim < 4; ++dim) strides[dim] = orders[s.order][dim];
}

template <class T>
double check(const Case& s, std::mt19937& random) {
  const bool first = s.layout == Layout::batch_first;
  const int64_t features = s.a * s.c * s.d, outer = first ? s.batch : features, inner = first ? features : s.batch;
  Operands operands;
  operands.x_stride = inner + s.padding;
  weight_strides(s, operands.weight_strides);
  const int64_t x_size = outer == 0 ? 0 : (outer - 1) * operands.x_stride + inner;
  const int64_t w_size = (s.a * s.b * s.c * s.d - 1) * (s.order == 3 ? 3 : 1) + 1, y_size = s.a * s.b * s.d * s.batch;
  Buffer<T> x(x_size, s.shift), w(w_size, s.shift), y(y_size, s.shift);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t e = 0; e < x_size; ++e) x.data[e] = to_bits<T>(uniform(random));
  for (int64_t e = 0; e < w_size; ++e) w.data[e] = to_bits<T>(uniform(random));
  for (int64_t e = 0; e < y_size; ++e) y.data[e] = to_bits<T>(NAN);
  operands.x = x.data, operands.weight = w.data, operands.y = y.data;
  const Problem problem = {s.a, s.b, s.c, s.d, s.batch, Dtype::float32, s.layout};

  with_simt_tile<T>(problem, [&](auto choice) {
    using Tile = typename decltype(choice)::Tile;
    emulate_simt<T, decltype(choice)::layout, Tile>(make_task<T, 4, 4>(problem, operands, Tile::n, Tile::r, Tile::j));
    return 0;
  });

  const int64_t* ws = operands.weight_strides;
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < s.a; ++i)
    for (int64_t r = 0; r < s.b; ++r)
      for (int64_t j = 0; j < s.d; ++j)
        for (int64_t n = 0; n < s.batch; ++n) {
          double sum = 0;
          for (int64_t k = 0; k < s.c; ++k) {
            const int64_t feature = (i * s.c + k) * s.d + j;
            const int64_t at = first ? n * operands.x_stride + feature : feature * operands.x_stride + n;
            sum += static_cast<double>(to_float<T>(x.data[at])) *
                   to_float<T>(w.data[i * ws[0] + r * ws[1] + k * ws[2] + j * ws[3]]);
          }
          const int64_t row = (i * s.b + r) * s.d + j, rows = s.a * s.b * s.d;
          const double error = to_float<T>(y.data[first ? n * rows + row : row * s.batch + n]) - sum;
          difference += error * error, norm += sum * sum;
        }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

template <class T>
int run(const char* name, double tolerance, int count, unsigned seed) {
  std::mt19937 random(seed);
  const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 40, 48, 56, 64, 65, 96, 100};
  const int64_t groups[] = {1, 1, 2, 2, 3, 4, 5, 7, 8, 12, 16, 20, 24};
  const int64_t batches[] = {0, 1, 2, 3, 7, 8, 31, 64, 77, 128, 130};
  const auto any = [&](const auto& list) { return list[random() % (sizeof list / sizeof *list)]; };
  int wrong = 0;
  for (int index = 0; index < count; ++index) {
    Case s;
    s.a = random() % 3 + 1, s.b = any(sizes), s.c = any(sizes), s.d = any(groups), s.batch = any(batches);
    s.layout = index % 2 == 0 ? Layout::batch_first : Layout::batch_last;
    s.padding = random() % 3 == 0 ? 0 : random() % 2 == 0 ? 8 : static_cast<int64_t>(random() % 5);
    s.shift = random() % 4 == 0;
    s.order = static_cast<int>(random() % 4);
    const double error = check<T>(s, random);
    if (!(error < tolerance)) {
      std::printf("%s (%ld,%ld,%ld,%ld) batch %ld layout %d padding %ld shift %d order %d: error %g\n", name, s.a, s.b,
                  s.c, s.d, s.batch, static_cast<int>(s.layout), s.padding, s.shift, s.order, error);
      ++wrong;
    }
  }
  std::printf("%s: %d of %d wrong\n", name, wrong, count);
  return wrong;
}

int main(int count, char** arguments) {
  const int cases = count > 1 ? std::atoi(arguments[1]) : 200;
  const unsigned seed = count > 2 ? static_cast<unsigned>(std::atoi(arguments[2])) : 0;
  const int wrong = run<float>("float32", 1e-6, cases, seed) + run<float16>("float16", 1e-3, cases, seed) +
                    run<bfloat16>("bfloat16", 8e-3, cases, seed);
  return wrong == 0 ? 0 : 1;
}
