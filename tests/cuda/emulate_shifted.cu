// Follows the boxes of X and Y of the shifted kernel on the CPU, with the kernel's own arithmetic: that threads read
// the numbers that they should, that nothing outside of X is read, that each number of Y is written, from where it
// should come, and nothing else.
//
// Needs nvcc but no GPU.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "../../ksmm/csrc/cuda/hopper/shifted_launch.cuh"
#include "tensor_element.h"

using namespace ksmm;
using namespace ksmm::hopper;

constexpr ShiftedSize sizes[] = {{64, 128}, {64, 256}, {128, 256}, {192, 192}, {256, 128}};

// Memory is numbered from the multiple of 16 bytes before the operand on; what is there is its number.
struct Case {
  GemmView view = {};
  int x_offset, y_offset;

  explicit Case(std::mt19937& random, int rows_of_tile) {
    const auto any = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)) + 1; };
    constexpr int planes[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 20};
    view.groups_i = any(2), view.groups_j = planes[any(10) - 1];
    // around the sizes at which another tile is needed, too
    view.rows = any(4) == 1 ? any(3 * rows_of_tile) : any(3) * (rows_of_tile - 16) + any(40) - 8;
    const int64_t stride = view.rows + any(10) - 1;
    view.b = shifted_classes(view.rows, view.groups_j, 8) * any(34);
    view.c = shifted_classes(stride, view.groups_j, 8) * any(18);
    x_offset = any(8) - 1, y_offset = any(8) - 1;
    view.x = reinterpret_cast<void*>(uintptr_t{1} << 20 | 2u * static_cast<unsigned>(x_offset));
    view.y = reinterpret_cast<void*>(uintptr_t{1} << 20 | 2u * static_cast<unsigned>(y_offset));
    view.x_strides.j = stride;
  }
  int64_t in_x(int i, int64_t k, int j, int64_t n) const {
    return x_offset + ((i * view.c + k) * view.groups_j + j) * view.x_strides.j + n;
  }
  int64_t in_y(int i, int64_t r, int j, int64_t n) const {
    return y_offset + ((i * view.b + r) * view.groups_j + j) * view.rows + n;
  }
};

template <class Tile>
bool x_is_wrong(const Case& problem, const ShiftedTask& task, const TensorBox& tensor, const ShiftedPlace& place,
                int k) {
  const ShiftedRows& rows = task.rows_of_x;
  const int bits = rows.class_bits, pitch = Tile::pitch(bits) / 2, box = gemm_step >> bits;
  const int64_t end = problem.in_x(static_cast<int>(problem.view.groups_i) - 1, problem.view.c - 1,
                                   static_cast<int>(problem.view.groups_j) - 1, problem.view.rows);
  std::vector<int64_t> stage(static_cast<size_t>(Tile::strips * gemm_step * pitch), unknown);
  for (int q = 0; q < 1 << bits; ++q)
    for (int strip = 0; strip < Tile::strips; ++strip) {
      const int start = q * task.groups_j + place.j;
      const int column = rows.column(start) / 8 * 8 + place.n + strip * Tile::strip - moved(q, bits);
      if (column % 8 != 0) return true;
      for (int at = 0; at < box * pitch; ++at) {
        const int64_t number =
            element(tensor, column + at % pitch, (k >> bits) + at / pitch, start >> rows.period_bits, place.i);
        if (number >= end) return true;
        stage.at(static_cast<size_t>((strip * gemm_step + q * box) * pitch + at)) = number;
      }
    }
  for (int thread = 0; thread < Tile::consumers; ++thread) {
    ShiftedOperands<Tile> operands(bits, static_cast<unsigned>(thread));
    operands.set_shifts(place.shift(task, rows, 0), static_cast<int>(task.groups_j * rows.stride & 7),
                        static_cast<unsigned>(thread));
    for (int at = 0; at < 2 * gemm_step / 8 * 2; ++at) {
      const int eight = at / 4, odd = at / 2 % 2;
      const ShiftedPair& pair = odd ? operands.odd : operands.even;
      const uint32_t byte = static_cast<uint32_t>(eight) * operands.eight_rows + pair.offset;
      const int64_t found = stage.at(byte / 2 + (pair.between ? 1 : 0) + static_cast<size_t>(at % 2));
      const int64_t of_c = k + 8 * eight + thread % 4 * 2 + odd;
      const int64_t n = place.n + shifted_n(static_cast<unsigned>(thread)) + at % 2;
      if (byte % 4 != 0 || found == unknown) return true;
      if (of_c >= problem.view.c ? found != nothing
                                 : n < problem.view.rows && found != problem.in_x(place.i, of_c, place.j, n))
        return true;
    }
  }
  return false;
}

// What all threads put into a part: n 64 + r, both counted from the beginning of the tile and the part.
template <class Tile>
bool put(std::vector<int64_t>& part, const ShiftedTask& task, const ShiftedSpans& spans) {
  using Outlet = ShiftedOutlet<float16, Tile>;
  const int bits = task.rows_of_y.class_bits;
  for (int thread = 0; thread < Tile::consumers; ++thread) {
    const auto where = Outlet::places_of(spans, bits, static_cast<unsigned>(thread));
    for (int at = 0; at < Tile::part / 4; ++at) {
      const int odd = at % 2, eight = at / 2 % 2, sixteen = at / 4;
      const int row = 16 * sixteen + 8 * eight + thread % 4 * 2 + (odd ^ static_cast<int>(where.swapped));
      const uint32_t to = where.at[odd][eight] + static_cast<uint32_t>(sixteen * (16 >> bits) * Tile::part_pitch);
      const int valid = where.valid >> (4 * odd + 2 * eight) & 3;
      const bool aligned = ((spans.shift + odd * spans.turn) & 1) == 0;
      if (aligned && valid != 0 && (valid != 3 || to % 4 != 0)) return true;  // stored as a word
      for (int second = 0; second < 2; ++second) {
        if (!(valid >> second & 1)) continue;
        int64_t& place = part.at(static_cast<size_t>((static_cast<int>(to) + 2 * second) / 2));
        if (place != unknown) return true;
        place = (shifted_n(static_cast<unsigned>(thread)) + second) * 64 + row;
      }
    }
  }
  return false;
}

template <class Tile>
bool y_is_wrong(const Case& problem, const ShiftedTask& task, const TensorBox& tensor, const ShiftedPlace& place, int r,
                std::vector<int>& written) {
  using Outlet = ShiftedOutlet<float16, Tile>;
  const ShiftedRows& rows = task.rows_of_y;
  const ShiftedSpans spans(task, place);
  const int bits = rows.class_bits;
  if (is_sent<Tile>(task)) {
    std::vector<int64_t> part(Tile::part_bytes / 2, unknown);
    if (put<Tile>(part, task, spans)) return true;
    for (int q = 0; q < 1 << bits; ++q) {
      const int start = q * task.groups_j + place.j, column = rows.column(start) + place.n + spans.begin(q, Tile::step);
      if (column % 8 != 0 || Tile::part_class_bytes(bits) % 128 != 0) return true;
      for (int at = 0; at < (Tile::part >> bits) * Tile::step; ++at) {
        const int own = at / Tile::step;
        const int64_t to =
            element(tensor, column + at % Tile::step, (r >> bits) + own, start >> rows.period_bits, place.i);
        const int64_t from = part.at(static_cast<size_t>(q * Tile::part_class_bytes(bits) / 2 + at));
        if (to == nothing) continue;
        if (from < 0 || to != problem.in_y(place.i, r + from % 64, place.j, place.n + from / 64)) return true;
        if (r + from % 64 >= problem.view.b || place.n + from / 64 >= problem.view.rows) return true;
        ++written.at(static_cast<size_t>(to));
      }
    }
  }
  for (int thread = 0; thread < Tile::consumers; ++thread) {
    const int rest = Outlet::rest_of(spans, task, place, static_cast<unsigned>(thread));
    for (int at = 0; at < Tile::part / 2; ++at) {
      const int row = at / 4 * 8 + at % 2 + thread % 4 * 2, second = at / 2 % 2;
      if (!(rest >> (at % 2 * 4 + at / 4 % 2 * 2 + second) & 1) || r + row >= problem.view.b) continue;
      const int64_t n = place.n + shifted_n(static_cast<unsigned>(thread)) + second;
      if (n >= problem.view.rows) return true;
      ++written.at(static_cast<size_t>(problem.in_y(place.i, r + row, place.j, n)));
    }
  }
  return false;
}

template <class Tile>
bool is_wrong(Tile, std::mt19937& random) {
  const Case problem(random, Tile::rows);
  TensorBox x, y;
  const ShiftedTask task = task_of_shifted<Tile>(problem.view, &x, &y);
  const auto all =
      static_cast<size_t>(problem.view.groups_i * problem.view.b * problem.view.groups_j * problem.view.rows);
  std::vector<int> written(static_cast<size_t>(problem.y_offset) + all);
  for (int tile = 0; tile < task.tiles; ++tile) {
    const ShiftedPlace place(task, tile, Tile::columns, Tile::step);
    // X of all r is the same, and that of all j and i alike
    if (tile % task.column_tiles == 0 && random() % 4 == 0)
      for (int k = 0; k < task.rows_of_x.features; k += gemm_step)
        if (x_is_wrong<Tile>(problem, task, x, place, k)) return true;
    for (int r = place.r; r < place.r + Tile::columns && r < task.b; r += Tile::part)
      if (y_is_wrong<Tile>(problem, task, y, place, r, written)) return true;
  }
  for (size_t at = 0; at < written.size(); ++at)
    if ((written[at] > 0) != (at >= static_cast<size_t>(problem.y_offset))) return true;
  return false;
}

// The boxes of a block of one tile, warp by warp: each class of rows once, where x_is_wrong() follows it.
template <class Tile>
bool boxes_are_wrong(const ShiftedTask& task, const ShiftedPlace& place) {
  const ShiftedRows& rows = task.rows_of_x;
  const int classes = 1 << rows.class_bits, bytes = (gemm_step >> rows.class_bits) * Tile::pitch(rows.class_bits);
  std::vector<int> asked(static_cast<size_t>(classes));
  for (int warp = 0; warp < ShiftedBoxes<Tile>::warps; ++warp) {
    const ShiftedBoxes<Tile> boxes(task, place, warp);
    for (int at = 0; at < boxes.count; ++at) {
      const int q = boxes.offset[at] / bytes, start = q * task.groups_j + place.j;
      ++asked.at(static_cast<size_t>(q));
      if (boxes.offset[at] % bytes != 0 || boxes.row[at] != start >> rows.period_bits) return true;
      if (boxes.column[at] != rows.column(start) / 8 * 8 + place.n - moved(q, rows.class_bits)) return true;
    }
  }
  return std::any_of(asked.begin(), asked.end(), [](int times) { return times != 1; });
}

// Blocks of one tile, whose lanes write Y.
template <class Tile>
bool single_is_wrong(std::mt19937& random) {
  const Case problem(random, Tile::rows + 16);
  TensorBox x;
  const ShiftedTask task = task_of_shifted_single<Tile>(problem.view, &x);
  const auto all =
      static_cast<size_t>(problem.view.groups_i * problem.view.b * problem.view.groups_j * problem.view.rows);
  std::vector<int> written(static_cast<size_t>(problem.y_offset) + all);
  for (int tile = 0; tile < task.tiles; ++tile) {
    const ShiftedPlace place(task, tile, Tile::block_columns, Tile::step);
    if (boxes_are_wrong<Tile>(task, place)) return true;
    if (tile % task.column_tiles == 0 && random() % 4 == 0)
      for (int k = 0; k < task.rows_of_x.features; k += gemm_step)
        if (x_is_wrong<Tile>(problem, task, x, place, k)) return true;
    const auto count = static_cast<int>(std::min<int64_t>(Tile::rows, problem.view.rows - place.n));
    for (int r = place.r; r < place.r + Tile::block_columns && r < task.b; ++r) {
      const uint16_t* row = place.row(task, task.rows_of_y, r) + place.n;
      for (int thread = 0; thread < 32; ++thread) {
        const ShiftedLane lane(thread, reinterpret_cast<uintptr_t>(row) % 4 != 0, count);
        if (lane.whole && reinterpret_cast<uintptr_t>(row + lane.n) % 4 != 0) return true;
        // in shared memory number n of a row is n
        const auto word = [&](int bytes) { return static_cast<uint64_t>(bytes / 2 | (bytes / 2 + 1) << 16); };
        const uint64_t pair = (word(lane.from) << 32 | word(lane.from - lane.before)) >> lane.between;
        const auto write = [&](int n, uint64_t number) {
          ++written.at(static_cast<size_t>(problem.in_y(place.i, r, place.j, place.n + n)));
          return static_cast<int>(number & 0xffff) != n;
        };
        if (lane.whole && (write(lane.n, pair) || write(lane.n + 1, pair >> 16))) return true;
        if (lane.single && write(lane.n, (pair & 0xffffffff) >> lane.alone)) return true;
        if (lane.last && write(gemm_rows - 1, word(lane.from + 2 * gemm_rows - 2))) return true;
      }
    }
  }
  for (size_t at = 0; at < written.size(); ++at)
    if (written[at] != (at >= static_cast<size_t>(problem.y_offset))) return true;
  return false;
}

int main(int count, char** arguments) {
  const int cases = count > 1 ? std::atoi(arguments[1]) : 20;
  std::mt19937 random(count > 2 ? static_cast<unsigned>(std::atoi(arguments[2])) : 0);
  int all = 0;
  for (const ShiftedSize& size : sizes) {
    int wrong = 0;
    for (int at = 0; at < cases; ++at)
      wrong += with_shifted_tile(size, [&](auto tile) { return is_wrong(tile, random); });
    std::printf("%d r, %d n: %d of %d wrong\n", size.columns, size.rows, wrong, cases);
    all += wrong;
  }
  for (const int columns : {64, 128, 192}) {
    int wrong = 0;
    for (int at = 0; at < cases; ++at)
      wrong += with_shifted_single(columns, [&](auto tile) { return single_is_wrong<decltype(tile)>(random); });
    std::printf("blocks of one tile, %d r: %d of %d wrong\n", columns, wrong, cases);
    all += wrong;
  }
  return all > 0;
}
