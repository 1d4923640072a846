// Writes W in the order of the stages of tiles of planes on the CPU, by what the kernel's threads do, and looks up each
// number of each stage where the copy engine would have put it. Splits batches between rows of four blocks and pairs,
// and finds where tiles are. Reads the bias of tiles.
//
// Needs nvcc but no GPU. W and the bias live in allocations of exactly their size, so that AddressSanitizer sees reads
// outside.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "../../ksmm/csrc/cuda/hopper/planes_bias.cuh"
#include "../../ksmm/csrc/cuda/hopper/planes_launch.cuh"
#include "../../ksmm/csrc/cuda/hopper/planes_store.cuh"
#include "../../ksmm/csrc/cuda/hopper/planes_weight.cuh"

using namespace ksmm;
using namespace ksmm::hopper;

struct Weight {
  Problem problem;
  std::vector<uint16_t> numbers;
  int64_t strides[4];

  int64_t place(int64_t i, int64_t r, int64_t k, int64_t j) const {
    return i * strides[0] + r * strides[1] + k * strides[2] + j * strides[3];
  }
  uint16_t at(int64_t i, int64_t r, int64_t k, int64_t j) const {  // zeros beyond
    const bool inside = r < problem.b && k < problem.c && j < problem.d;
    return inside ? numbers.at(static_cast<size_t>(place(i, r, k, j))) : 0;
  }
};

// Dimensions of random sizes, stored in one of the orders that weights come in, rows perhaps padded to 16 bytes.
Weight random_weight(int64_t d, std::mt19937& random) {
  const auto any = [&](int most) { return static_cast<int64_t>(random() % most + 1); };
  Weight w = {{any(3), any(150), any(90), d, 1, Dtype::float16, Layout::batch_first}, {}, {}};
  const auto& [a, b, c, planes, batch, dtype, layout, precision] = w.problem;
  const int64_t row = random() % 2 == 0 ? (c + 7) / 8 * 8 : c;
  const int64_t orders[3][4] = {{d * b * row, row, 1, b * row}, {b * c * d, c * d, d, 1}, {d * b * c, 1, b, c * b}};
  std::memcpy(w.strides, orders[random() % 3], sizeof w.strides);
  w.numbers.resize(static_cast<size_t>(w.place(a - 1, b - 1, c - 1, d - 1) + 1));
  for (uint16_t& number : w.numbers) number = static_cast<uint16_t>(random() % 65535 + 1);
  return w;
}

template <class Tile>
bool is_right(const Weight& w) {
  const std::unique_ptr<void, decltype(&std::free)> exact(std::malloc(2 * w.numbers.size()), std::free);
  std::memcpy(exact.get(), w.numbers.data(), 2 * w.numbers.size());
  Operands operands = {};
  operands.weight = exact.get();
  std::memcpy(operands.weight_strides, w.strides, sizeof w.strides);
  const PlanesStages shape = planes_stages<Tile>(w.problem);
  std::vector<char> stages(static_cast<size_t>(shape.bytes(w.problem)));
  const PlanesWeightTask task = planes_weight_task(w.problem, operands, shape, stages.data());
  for (int64_t at = 0; at < task.vectors; ++at) {
    const uint4 vector = planes_weight_vector(task, at);
    std::memcpy(&stages.at(static_cast<size_t>(16 * at)), &vector, 16);
  }
  const int64_t steps = shape.steps(w.problem);
  for (int64_t i = 0; i < w.problem.a; ++i)
    for (int64_t tile_j = 0; tile_j < shape.tiles_j(w.problem); ++tile_j)
      for (int64_t tile_r = 0; tile_r < shape.tiles_r; ++tile_r)
        for (int64_t step = 0; step < steps; ++step)
          for (int place = 0; place < Tile::j * Tile::r * Tile::k; ++place) {
            const int k = place % Tile::k, r = place / Tile::k % Tile::r, j = place / Tile::k / Tile::r;
            const int byte = j * Tile::plane_bytes + r * Tile::weight_row_bytes + 2 * k;
            // rows of 32, 64 and 128 bytes: bits 4, 4 to 5, and 4 to 6 change with bits 7 to 9
            const int swizzled = byte ^ (byte >> 7 & (Tile::weight_row_bytes / 16 - 1)) << 4;
            const int64_t stage = ((i * shape.tiles_j(w.problem) + tile_j) * shape.tiles_r + tile_r) * steps + step;
            uint16_t found;
            std::memcpy(&found, &stages.at(static_cast<size_t>(stage * Tile::weight_bytes + swizzled)), 2);
            if (found != w.at(i, tile_r * Tile::r + r, step * Tile::k + k, tile_j * Tile::j + j)) return false;
          }
  return true;
}

template <class Tile>
int run(const char* name, int cases, std::mt19937& random) {
  int wrong = 0;
  for (int at = 0; at < cases; ++at) {
    const int64_t d = Tile::wide ? static_cast<int64_t>(17 + random() % 40) : Tile::j;
    wrong += !is_right<Tile>(random_weight(d, random));
  }
  std::printf("%s: %d of %d wrong\n", name, wrong, cases);
  return wrong;
}

// Whether rows n that pairs take are the last ones, from a tile's first on, fewer than all, and spare rows of four a
// round; and none where nothing runs beside another kernel.
bool splits_well(std::mt19937& random) {
  using Tile = PlanesTile<16, 32, 16, 4, 4, true, false, 4>;
  const auto any = [&](int most) { return static_cast<int64_t>(random() % most + 1); };
  Machine machine = {};
  machine.quads = static_cast<int>(any(33)),
  machine.multiprocessors = 4 * machine.quads + static_cast<int>(random() % 20);
  machine.overlaps = random() % 4 != 0;
  const Problem problem = {any(9), any(700), any(300), 16, any(9000), Dtype::float16, Layout::batch_first};
  const RowsBeside rows = rows_beside<Tile>(problem, machine);
  const bool may = machine.overlaps && rows.pairs > 0;
  const auto rounds_of = [&](int64_t batch) {
    return parts_of(problem.a * parts_of(problem.b, 128) * parts_of(batch, Tile::n), machine.quads);
  };
  if (rows.beside == 0) return rows.rounds == static_cast<double>(rounds_of(problem.batch));
  const int64_t first = problem.batch - rows.beside;
  const int64_t rounds_of_pairs =
      parts_of(problem.a * parts_of(problem.b, 64) * parts_of(rows.beside, Tile::n), rows.pairs);
  return may && 2 * rows.pairs <= machine.multiprocessors - 4 * machine.quads && first > 0 && first % Tile::n == 0 &&
         rounds_of(first) < rounds_of(problem.batch) && rows.rounds >= static_cast<double>(rounds_of(first)) &&
         rounds_of_pairs <= rounds_of(problem.batch);
}

// On an H100 pairs take a part of a large product, and spare rows of four a twentieth of their rounds and more.
bool splits_large_products() {
  Machine machine = {};
  machine.quads = 30, machine.multiprocessors = 132, machine.overlaps = true;
  const Problem problem = {8, 256, 256, 16, 25088, Dtype::float16, Layout::batch_first};
  const RowsBeside rows = rows_beside<PlanesTile<16, 32, 16, 4, 4, true, false, 4>>(problem, machine);
  return rows.beside > 0 && rows.pairs == 6 && rows.rounds < 0.95 * 8 * 2 * 392 / 30;
}

int run_splits(int cases, std::mt19937& random) {
  int wrong = splits_large_products() ? 0 : 1;
  for (int at = 0; at < cases; ++at) wrong += !splits_well(random);
  std::printf("rows beside: %d of %d wrong\n", wrong, cases);
  return wrong;
}

// Whether the blocks of all clusters have each place of a tile in Y once, r first, then j, then n.
bool tiles_are_in_order(std::mt19937& random) {
  using Tile = PlanesTile<16, 24, 16, 4, 4, true, true, 2, 2>;
  const auto any = [&](int most) { return static_cast<int64_t>(random() % most + 1); };
  const Problem problem = {any(5), any(200), 8, any(70), any(900), Dtype::float16, Layout::batch_first};
  const PlanesTiles<Tile> tiles(problem);
  PlanesTask task = {};
  task.set_tiles(tiles.along_r, tiles.along_j, tiles.along_n, tiles.all);
  int tile = 0;
  bool right = tiles.all == problem.a * tiles.along_n * tiles.along_j * tiles.along_r;
  for (int i = 0; i < problem.a; ++i)
    for (int n = 0; n < tiles.along_n; ++n)
      for (int j = 0; j < tiles.along_j; ++j)
        for (int r = 0; r < tiles.along_r; ++r, ++tile)
          for (int rank = 0; rank < 4; ++rank) {
            const PlanesOrigin origin = planes_origin<Tile>(task, tile, rank);
            right &= origin.i == i && origin.j == 16 * j && origin.n == 64 * (2 * n + rank % 2) &&
                     origin.r == 24 * (2 * r + rank / 2);
          }
  return right;
}

// Whether quotients are those of a division, for numbers up to the largest.
bool divides(std::mt19937& random) {
  const int by = static_cast<int>(random() >> (2 + random() % 30)) + 1, most = INT32_MAX;
  const Divisor divisor(by);
  bool right = divisor.divide(most) == most / by && divisor.divide(0) == 0;
  for (int at = 0; at < 100; ++at) {
    const int multiple = static_cast<int>(random() % (static_cast<unsigned>(most) / by + 1)) * by;
    const int number = static_cast<int>(random() >> 1);
    right &= divisor.divide(number) == number / by && divisor.divide(multiple) == multiple / by;
    right &= multiple == 0 || divisor.divide(multiple - 1) == multiple / by - 1;
  }
  return right;
}

int run_places(int cases, std::mt19937& random) {
  int wrong = 0;
  for (int at = 0; at < cases; ++at) wrong += !(tiles_are_in_order(random) && divides(random));
  std::printf("places of tiles: %d of %d wrong\n", wrong, cases);
  return wrong;
}

// Whether each thread of a tile's two warpgroups starts from the bias of its columns r and planes, and from zeros where
// there are none; and pieces that are copied as vectors are aligned, also those of no number. The bias begins anywhere.
template <class Tile>
bool reads_bias(std::mt19937& random) {
  const auto any = [&](int most) { return static_cast<int64_t>(random() % most + 1); };
  const int64_t a = any(3), b = any(2 * Tile::r), d = Tile::wide ? 16 + any(40) : Tile::j, begins = any(8) - 1;
  const std::unique_ptr<uint16_t, decltype(&std::free)> exact(
      static_cast<uint16_t*>(std::malloc(static_cast<size_t>(2 * (begins + a * b * d)))), std::free);
  uint16_t* const bias = exact.get() + begins;
  for (int64_t at = 0; at < a * b * d; ++at) bias[at] = static_cast<uint16_t>(random() % 0x7c00);
  PlanesTask task = {};
  task.bias = bias;
  task.a = static_cast<int>(a), task.b = static_cast<int>(b), task.d = static_cast<int>(d);
  const PlanesOrigin origin = {static_cast<int>(random() % a), 0, random() % 2 == 0 ? 0 : Tile::r,
                               Tile::wide ? 16 * static_cast<int>(random() % parts_of(d, 16)) : 0};
  uint16_t of_tile[Tile::r * Tile::j] = {};
  for (int place = 0; place < Tile::r * Tile::j; place += 8) {
    const BiasPiece piece = piece_of_bias<Tile>(task, origin, place);
    if (bias_is_aligned<Tile>(task, origin) && reinterpret_cast<uintptr_t>(piece.from) % 16 != 0) return false;
    std::memcpy(of_tile + place, piece.from, static_cast<size_t>(2 * piece.count));
  }
  for (int thread = 0; thread < 2 * 128; ++thread) {
    float sums[Tile::planes][Tile::r / 2];
    const int warpgroup = thread / 128, lane = thread % 32, first = Tile::split ? warpgroup * Tile::planes : 0;
    take_bias<float16, Tile>(sums, of_tile, warpgroup, lane);
    for (int place = 0; place < Tile::planes * Tile::r / 2; ++place) {
      const int plane = place % Tile::planes, s = place / Tile::planes;
      const int64_t r = origin.r + s / 4 * 8 + lane % 4 * 2 + s % 2, j = origin.j + first + plane;
      const float expected = r < b && j < d ? to_float<float16>(bias[(origin.i * b + r) * d + j]) : 0;
      if (sums[plane][s] != expected) return false;
    }
  }
  return true;
}

int run_biases(int cases, std::mt19937& random) {
  using Two = PlanesTile<2, 64, 32, 5, 5, false, false>;
  using Three = PlanesTile<3, 64, 32, 4, 4, false, false>;
  using Eight = PlanesTile<8, 40, 16, 4, 4, false, false>;
  using Twelve = PlanesTile<12, 48, 16, 4, 4, true, false>;
  using Sector = PlanesTile<16, 24, 16, 4, 4, true, true>;
  int wrong = 0;
  for (int at = 0; at < cases; ++at)
    wrong += !(reads_bias<Two>(random) && reads_bias<Three>(random) && reads_bias<Eight>(random) &&
               reads_bias<Twelve>(random) && reads_bias<Sector>(random));
  std::printf("biases: %d of %d wrong\n", wrong, cases);
  return wrong;
}

int main(int count, char** arguments) {
  const int cases = count > 1 ? std::atoi(arguments[1]) : 20;
  std::mt19937 random(count > 2 ? static_cast<unsigned>(std::atoi(arguments[2])) : 0);
  int wrong = run<PlanesTile<8, 40, 16, 4, 4, false, false>>("j8 r40 k16", cases, random);
  wrong += run<PlanesTile<24, 24, 16, 2, 2, true, false, 2>>("j24 r24 k16 pair", cases, random);
  wrong += run<PlanesTile<12, 48, 16, 4, 4, true, false>>("j12 r48 k16", cases, random);
  wrong += run<PlanesTile<16, 32, 16, 4, 4, true, false, 2>>("j16 r32 k16 pair", cases, random);
  wrong += run<PlanesTile<16, 24, 16, 4, 4, true, true, 2, 2>>("sector r24 k16 quad", cases, random);
  wrong += run<PlanesTile<4, 64, 32, 4, 4, false, false>>("j4 r64 k32", cases, random);
  wrong += run<PlanesTile<4, 64, 64, 2, 2, false, false>>("j4 r64 k64", cases, random);
  wrong += run_splits(cases, random);
  wrong += run_places(cases, random);
  wrong += run_biases(cases, random);
  return wrong == 0 ? 0 : 1;
}
