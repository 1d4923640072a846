// Computes gradients of weights in batch_first on the CPU as the kernel's threads do, from boxes that lie in shared
// memory as the copy engine puts them there, and compares with a plain sum in double.
//
// Needs nvcc but no GPU.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "../../ksmm/csrc/cuda/hopper/gradient_products.cuh"

using namespace ksmm;
using namespace ksmm::hopper;

constexpr uint16_t nan_bits = 0x7e00;
using Numbers = std::vector<uint16_t>;

// X or ∂Y of one i: (batch, size, d), with `batch` rows that are `pitch` apart.
struct Rows {
  const Numbers* numbers;
  int batch, size, d;
  int64_t pitch, start;
  uint16_t at(int n, int r, int j) const {  // zeros beyond, as the copy engine reads them
    const bool inside = n < batch && r < size && j < d;
    return inside ? numbers->at(static_cast<size_t>(n * pitch + start + static_cast<int64_t>(r) * d + j)) : 0;
  }
};

// The address of a number in shared memory: an engine's chunks of 16 bytes change places by bits of their row's.
uint32_t swizzled(uint32_t byte, int row_bytes) { return byte ^ (byte >> 7 & (row_bytes / 16 - 1)) << 4; }

// Brings a stage of R rows r, and leaves boxes out that begin beyond the last.
template <class Tile>
void fetch(std::vector<char>& stage, uint32_t base, const Rows& rows, int tile, int first, int first_j, int first_n) {
  const auto put = [&](uint32_t byte, uint16_t bits) { std::memcpy(&stage.at(base + byte), &bits, 2); };
  for (int r = 0; r < tile; ++r)
    for (int n = 0; n < Tile::n; ++n)
      for (int j = 0; j < Tile::j; ++j) {
        const int feature = r * Tile::j + j;
        const uint32_t byte = Tile::wide ? ((r * Tile::n + n) * Tile::j + j) * 2
                                         : feature / 64 * Tile::box_bytes + n * Tile::row_bytes + feature % 64 * 2;
        const bool left_out = !Tile::wide && (first + feature / 64 * 64 / Tile::j) >= rows.size;
        put(swizzled(byte, Tile::row_bytes), left_out ? nan_bits : rows.at(first_n + n, first + r, first_j + j));
      }
}

// The matrix units: each of a warp's threads asks for the same products in the same order.
struct Request {
  float* sum;
  uint32_t a[4], b[2];
};

float number(uint32_t word, int upper) { return to_float<float16>(static_cast<uint16_t>(word >> 16 * upper)); }

void multiply(std::vector<std::vector<Request>>& of_lane) {
  for (size_t at = 0; at < of_lane[0].size(); ++at)
    for (int lane = 0; lane < 32; ++lane)
      for (int e = 0; e < 4; ++e) {
        const int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        double sum = 0;
        for (int k = 0; k < 16; ++k) {
          const Request &a = of_lane[row % 8 * 4 + k % 8 / 2][at], &b = of_lane[column * 4 + k % 8 / 2][at];
          sum += static_cast<double>(number(a.a[row / 8 + k / 8 * 2], k % 2)) * number(b.b[k / 8], k % 2);
        }
        of_lane[lane][at].sum[e] += static_cast<float>(sum);
      }
}

// One block: adds its sums to `gradient`, and counts what it writes.
template <class Tile>
void run_block(const GradientTask& task, int64_t block, const Numbers& x, const Numbers& y, int batch,
               std::vector<double>& gradient, std::vector<int>& written) {
  const GradientOrigin origin = gradient_origin<Tile>(task, block);
  const auto rows_of = [&](const Numbers& of, int size) {
    return Rows{&of,
                batch,
                size,
                task.d,
                static_cast<int64_t>(task.a) * size * task.d,
                static_cast<int64_t>(origin.i) * size * task.d};
  };
  struct Sums {
    GradientSums<Tile> of;
  };
  std::vector<Sums> sums(256);
  std::vector<char> stage(Tile::stage_bytes);
  for (int step = first_step(task, origin.part); step < first_step(task, origin.part + 1); ++step) {
    fetch<Tile>(stage, 0, rows_of(y, task.b), Tile::r, origin.r, origin.j, step * Tile::n);
    fetch<Tile>(stage, Tile::y_bytes, rows_of(x, task.c), Tile::c, origin.c, origin.j, step * Tile::n);
    const auto read = [&](uint32_t address, uint32_t (&words)[4]) {
      std::memcpy(words, &stage.at(address + 15) - 15, 16);
    };
    for (int rows = 0; rows < Tile::n; rows += 16)
      for (int warp = 0; warp < Tile::warps; ++warp) {
        std::vector<std::vector<Request>> of_lane(32);
        for (int lane = 0; lane < 32; ++lane)
          multiply_rows<Tile>(sums[warp * 32 + lane].of, GradientLane<Tile>(warp, lane), rows * Tile::row_bytes, read,
                              [&](float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
                                of_lane[lane].push_back({sum, {a[0], a[1], a[2], a[3]}, {b0, b1}});
                              });
        multiply(of_lane);
      }
  }
  for (int thread = 0; thread < 256; ++thread)
    for (int at = 0; at < Tile::vectors; ++at) {
      const GradientVector<Tile> vector(GradientLane<Tile>(thread / 32, thread % 32), at);
      const int64_t place = gradient_place<Tile>(task, origin, vector);
      for (int e = 0; e < 8 && place >= 0; ++e) {
        gradient.at(place + e) += sum_of<Tile>(sums[thread].of, vector, e);
        written.at(place + e) += 1;
      }
    }
}

template <class Tile>
bool is_wrong(std::mt19937& random) {
  const auto any = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)) + 1; };
  GradientTask task = {};
  task.a = any(2), task.b = any(Tile::r + 20), task.c = any(Tile::c / 8 + 3) * 8;
  task.d = Tile::wide ? 8 * (any(4) + 2) : Tile::j;
  const int batch = any(70);
  task.tiles_r = (task.b + Tile::r - 1) / Tile::r, task.tiles_c = (task.c + Tile::c - 1) / Tile::c;
  task.tiles_j = (task.d + Tile::j - 1) / Tile::j;
  task.steps = (batch + Tile::n - 1) / Tile::n, task.parts_of_batch = any(task.steps);
  Numbers x(static_cast<size_t>(batch) * task.a * task.c * task.d),
      y(static_cast<size_t>(batch) * task.a * task.b * task.d);
  for (Numbers* numbers : {&x, &y})
    for (uint16_t& bits : *numbers) bits = to_bits<float16>(static_cast<float>(static_cast<int>(random() % 17) - 8));
  const size_t size = static_cast<size_t>(task.a) * task.b * task.c * task.d;
  std::vector<double> gradient(size), expected(size);
  std::vector<int> written(size);
  const int64_t tiles = static_cast<int64_t>(task.a) * task.tiles_r * task.tiles_c * task.tiles_j;
  for (int64_t block = 0; block < tiles * task.parts_of_batch; ++block)
    run_block<Tile>(task, block, x, y, batch, gradient, written);
  const auto value = [](const Numbers& of, int64_t at) { return static_cast<double>(to_float<float16>(of.at(at))); };
  for (int n = 0; n < batch; ++n)
    for (int i = 0; i < task.a; ++i)
      for (int r = 0; r < task.b; ++r)
        for (int k = 0; k < task.c; ++k)
          for (int j = 0; j < task.d; ++j)
            expected[((static_cast<size_t>(i) * task.b + r) * task.c + k) * task.d + j] +=
                value(y, ((static_cast<int64_t>(n) * task.a + i) * task.b + r) * task.d + j) *
                value(x, ((static_cast<int64_t>(n) * task.a + i) * task.c + k) * task.d + j);
  for (size_t at = 0; at < size; ++at)  // whole numbers: sums are exact
    if (gradient[at] != expected[at] || written[at] != task.parts_of_batch) return true;
  return false;
}

// Whether eight lanes that read together, of 16 bytes each, meet in a bank.
template <class Tile>
bool lanes_meet() {
  for (int warp = 0; warp < Tile::warps; ++warp)
    for (int lane = 0; lane < 32; lane += 8)
      for (const bool second : {false, true}) {
        unsigned banks = 0;
        for (int other = lane; other < lane + 8; ++other) {
          const GradientLane<Tile> of(warp, other);
          banks |= 1u << (second ? of.second : of.first) / 16 % 8;
        }
        if (banks != 255) return true;
      }
  return false;
}

template <class Tile>
bool report(const char* name, int cases, std::mt19937& random) {
  int wrong = 0;
  for (int at = 0; at < cases; ++at) wrong += is_wrong<Tile>(random);
  std::printf("%s: %d of %d wrong\n", name, wrong, cases);
  if (lanes_meet<Tile>()) std::printf("%s: lanes meet in a bank\n", name), ++wrong;
  return wrong == 0;
}

int main(int count, char** arguments) {
  if (count != 3) return std::fprintf(stderr, "usage: %s CASES SEED\n", arguments[0]), 2;
  const int cases = std::atoi(arguments[1]);
  std::mt19937 random(static_cast<unsigned>(std::atol(arguments[2])));
  bool right = report<GradientTile<2, false>>("2 planes", cases, random);
  right &= report<GradientTile<4, false>>("4 planes", cases, random);
  right &= report<GradientTile<8, false>>("8 planes", cases, random);
  right &= report<GradientTile<16, false>>("16 planes", cases, random);
  right &= report<GradientTile<16, true>>("16 of more planes", cases, random);
  right &= report<GradientTile<32, true>>("32 of more planes", cases, random);
  return right ? 0 : 1;
}
