// Products in batch_last of 16-bit types whose rows begin anywhere: tiles, and what a block is told.
//
// The copy engine takes rows that begin at a multiple of 16 bytes and are multiples of 16 bytes apart. Of rows of any
// stride every eighth (fourth, second) is that far from the next, and all of these lie as many numbers behind such a
// multiple, their shift. So X, and Y, are tensors of long rows, of eight rows (four, two) each, in which a class of
// rows is a range of columns.
#pragma once

#include "barrier.cuh"
#include "divisor.cuh"
#include "gemm_task.cuh"

namespace ksmm::hopper {

// Bytes from row to row of so many n of X in a stage: as few as let the lanes of a warp, which read two neighbours of n
// from rows 2 t of a class or of two, meet in different banks.
__host__ __device__ constexpr int shifted_pitch(int n, int class_bits) {
  return 2 * (n + (class_bits == 3 ? 56 : class_bits == 2 ? 32 : class_bits == 1 ? 16 : 8));
}

// A tile multiplies 64 n for each warpgroup, and writes 16 n less: those of each row from one multiple of `unit`
// numbers to another, since sectors of 32 bytes that two tiles write are written several times as slowly as whole ones.
// The last tile of a row ends with it, and the one before it may have to begin earlier: they write some n again.
template <int COLUMNS_, int WARPGROUPS_>
struct ShiftedTile {
  static constexpr int columns = COLUMNS_, block_columns = columns;        // r
  static constexpr int warpgroups = WARPGROUPS_;                           // that multiply
  static constexpr int blocks = columns == 64 && warpgroups == 2 ? 2 : 1;  // of a multiprocessor
  static constexpr int consumers = 128 * warpgroups;
  // Two warps fetch X and W, and two send Y: each copy takes a thread some eighty cycles to ask for, and there are up
  // to sixteen at a time. Theirs is a warpgroup that hands registers to those that multiply.
  static constexpr int helpers = 2;
  static constexpr int threads = consumers + 128;
  static constexpr int registers = blocks == 2 ? 96 : warpgroups == 4 ? 104 : warpgroups == 3 ? 152 : 224;
  static constexpr int helper_registers = 48;
  // Of 16 k that are multiplied at a time: as many as there are registers for.
  static constexpr int steps = blocks == 2 || registers - columns / 2 < 64 ? 2 : 4;
  static_assert(registers_suffice<consumers, registers, 128, helper_registers, blocks>,
                "or a warpgroup would wait for ever");
  static constexpr int rows = warpgroups * gemm_rows;     // n that are multiplied
  static constexpr int step = rows - 16;                  // n from tile to tile
  static constexpr int strips = warpgroups == 4 ? 2 : 1;  // a box has 256 numbers in a row at most
  static constexpr int strip = rows / strips;             // n
  static constexpr int weight_bytes = columns * 128;
  static constexpr int part = 64;                           // rows of Y that leave at a time
  static constexpr int part_pitch = 2 * step;               // bytes of one
  static constexpr int parts = columns / part > 3 ? 4 : 2;  // that there is room for: of a tile, if they fit
  static constexpr int most_stages = 8;
  static_assert(columns % part == 0 && columns / 2 + 32 <= registers,
                "Y leaves in parts, sums and operands are registers");
  static_assert(rows <= 256 && part_pitch % 32 == 0, "what a box may have");

  // Bytes of the rows of a class in a part: a box, which begins at a multiple of 128 bytes.
  __host__ __device__ static constexpr int part_class_bytes(int class_bits) {
    return ((part >> class_bits) * part_pitch + 127) / 128 * 128;
  }
  static constexpr int part_bytes = 16 * part_class_bytes(4);
  __host__ __device__ static constexpr int pitch(int class_bits) { return shifted_pitch(strip, class_bits); }
  __host__ __device__ static constexpr int stage_bytes(int class_bits) {
    return strips * gemm_step * pitch(class_bits) + weight_bytes;
  }
  static constexpr int shared_bytes(int class_bits, int stages) {
    return stages * stage_bytes(class_bits) + parts * part_bytes + 1024;  // aligned for the swizzle of W
  }
  static int stages(int class_bits) {
    int count = 2;
    while (count < most_stages && blocks * (shared_bytes(class_bits, count + 1) + 3072) <= 228 * 1024) ++count;
    return count;
  }
  static_assert(stage_bytes(0) % 1024 == 0 && stage_bytes(1) % 1024 == 0, "the swizzle repeats after 1,024 bytes");
  static_assert(stage_bytes(2) % 1024 == 0 && stage_bytes(3) % 1024 == 0, "the swizzle repeats after 1,024 bytes");
  static_assert(blocks * (shared_bytes(3, 2) + 3072) <= 228 * 1024, "two stages fit into a multiprocessor");
};

// The first of the two neighbouring n of 64 for each warpgroup that a thread multiplies, and has the sums of.
__host__ __device__ inline int shifted_n(unsigned thread) {
  return static_cast<int>(2 * (thread / 32 * 8 + thread % 32 / 4));
}

// How many numbers the rows of a class are moved in a stage, for the sake of the banks.
__host__ __device__ inline int moved(int class_of_rows, int class_bits) {
  return class_bits >= 2 ? class_of_rows / 2 * 16 : 0;
}

// The rows of X or Y, (i features + feature) d + j of them. Those with the same remainder by the period have one shift:
// a long row has a period of them. Those of one (i, j) with the same remainder of the feature by the number of classes
// have, too: for a remainder q they are the rows (q d + j) % period of the long rows (q d + j) / period, ... Both are
// powers of two.
struct ShiftedRows {
  uint16_t* data;
  int64_t stride;  // numbers from row to row
  int features, class_bits, period_bits;
  int unit;  // of 8 or 16 numbers: what shifts are counted from

  // Where a row's first number is in its long row; these begin at the multiple of 16 bytes before the data.
  __host__ __device__ int column(int row) const {
    const int before = static_cast<int>(reinterpret_cast<uintptr_t>(data) / 2 % 8);
    return before + (row & ((1 << period_bits) - 1)) * static_cast<int>(stride);
  }
};

struct ShiftedTask : GemmTask {  // whose x and y are tensors (column, feature / classes, long row, i)
  ShiftedRows rows_of_x, rows_of_y;
  Divisor by_column_tiles, by_row_tiles, by_d;
  int64_t batch;
  int last, before_last;  // where a row has several tiles: n of the last one, and the largest of the others
  int stages;
};

// Where a tile is: r fastest, then n, so that what shares X, and lines of X and Y, is multiplied at the same time. n
// begins in the middle of the rows: the first and the last tile of a row take longer, and where blocks have one tile or
// two, those in the middle of the order are among the blocks that have one.
struct ShiftedPlace {
  int r, n, i, j;
  bool ends;  // whether it is the last of its rows

  __host__ __device__ ShiftedPlace(const ShiftedTask& task, int tile, int columns, int step) {
    const int rest = task.by_column_tiles.divide(tile), plane = task.by_row_tiles.divide(rest);
    r = (tile - rest * task.column_tiles) * columns;
    const int before = rest - plane * task.row_tiles + task.row_tiles / 2;
    const int row_tile = before < task.row_tiles ? before : before - task.row_tiles;
    ends = row_tile == task.row_tiles - 1;
    n = row_tile == 0 ? 0 : ends ? task.last : min(row_tile * step, task.before_last);
    i = task.by_d.divide(plane), j = plane - i * task.groups_j;
  }
  // How many numbers a row of X or Y lies behind a multiple of `unit` of them.
  __host__ __device__ int shift(const ShiftedTask& task, const ShiftedRows& rows, int feature) const {
    const auto row = (static_cast<uint32_t>(i) * rows.features + feature) * task.groups_j + j;
    const auto begin = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(rows.data) / 2);
    return static_cast<int>((begin + row * static_cast<uint32_t>(rows.stride)) & (rows.unit - 1));
  }
  __host__ __device__ uint16_t* row(const ShiftedTask& task, const ShiftedRows& rows, int feature) const {
    return rows.data + ((static_cast<int64_t>(i) * rows.features + feature) * task.groups_j + j) * rows.stride;
  }
};

}  // namespace ksmm::hopper
