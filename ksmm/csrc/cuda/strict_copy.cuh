// Brings a step of X and W from device memory to shared memory, for the strict float32 kernel. Runs on host and device.
//
// Copies are asynchronous and go past the registers. Where device memory is contiguous along n or r, shared memory is
// too: 16 bytes a copy. Else (k, j) is what is contiguous, and is transposed on the way: 4 bytes a copy, 8 neighbours
// in device memory by 4 n or r for a warp, which are whole sectors there and different banks here.
#pragma once

#include "copy_groups.cuh"
#include "strict_tile.cuh"
#include "task.cuh"

namespace ksmm {

// So many of `floats` (1 or 4) neighbours, 0 for the others; where none is there, `source` may be any address.
template <int floats>
KSMM_BOTH void copy_floats(float* target, const uint32_t* source, int there) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(target));
  if constexpr (floats == 4)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(source), "r"(4 * there)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(source), "r"(4 * there) : "memory");
#else
  for (int index = 0; index < floats; ++index)
    target[index] = index < there ? to_float<float>(read_only(source + index)) : 0.f;
#endif
}

// Where a thread reads the next step of an operand, and where in a stage its first copy goes.
struct Cursor {
  const uint32_t* source;
  int target;
  int rows;    // of the tile, from the thread's first on, that the operand has; none where it lacks the thread's j
  bool whole;  // whether all of its copies lie inside the operand, as long as the columns do
};

// One operand of a step, ROWS x Tile::k x Tile::j; `warps` warps to a plane of j, but for Along::features. A thread
// makes the same copies in every step, equally far apart: only its source moves on.
template <class Tile, int ROWS, int PITCH, int PLANE>
struct StrictCopy {
  static constexpr int J = Tile::j, warps = Tile::warps / J;
  static constexpr int vectors = ROWS / 4;  // of a column
  static constexpr int columns_at_once = 32 * warps / vectors >= 8   ? 8
                                         : 32 * warps / vectors >= 4 ? 4
                                         : 32 * warps / vectors >= 2 ? 2
                                                                     : 1;
  static constexpr int rows_at_once = 4 * warps;
  static_assert(vectors * columns_at_once <= 32 * warps, "a plane's warps must reach along a column");

  // The first element that a thread copies. ALONG: rows in vectors of 4; features, where neighbouring lanes follow
  // (column, j); or columns, where they follow the column alone.
  KSMM_BOTH static Place first_place(Along along, int thread) {
    const int warp = thread / 32, lane = thread % 32;
    if (along == Along::rows) {
      const int own = warp / J * 32 + lane;
      return {own % vectors * 4, own / vectors, warp % J};
    }
    const int row = warp / J * 4 + lane / 8;
    if (along == Along::columns) return {row, lane % 8, warp % J};
    const int feature = warp % J * 8 + lane % 8;
    return {row, feature / J, feature % J};
  }

  // origin: the tile's first element. limits.column is not looked at. whole_vectors: has_vectors along rows.
  KSMM_BOTH static Cursor start(Along along, const uint32_t* origin, const Strides& strides, const Place& limits,
                                bool whole_vectors, int thread) {
    const Place place = first_place(along, thread);
    const bool whole = limits.row == ROWS && place.j < limits.j && (whole_vectors || along != Along::rows);
    return {origin + offset(place, strides), place.j * PLANE + place.column * PITCH + place.row,
            place.j < limits.j ? limits.row - place.row : 0, whole};
  }

  // A step of which all is there.
  KSMM_BOTH static void copy_whole(bool rows, float* stage, const Cursor& cursor, const Strides& strides, int thread) {
    float* target = stage + cursor.target;
    const uint32_t* source = cursor.source;
    if (rows) {
      if (32 * warps != vectors * columns_at_once && thread / 32 / J * 32 + thread % 32 >= vectors * columns_at_once)
        return;
#pragma unroll
      for (int column = 0; column < Tile::k; column += columns_at_once, source += columns_at_once * strides.column)
        copy_floats<4>(target + column * PITCH, source, 4);
    } else {
#pragma unroll
      for (int row = 0; row < ROWS; row += rows_at_once, source += rows_at_once * strides.row)
        copy_floats<1>(target + row, source, 1);
    }
  }

  // A step at an edge: what lies outside of the operand, or of the columns that are left, becomes 0.
  KSMM_BOTH static void copy_part(Along along, float* stage, const Cursor& cursor, const Strides& strides,
                                  int64_t columns, bool whole_vectors, int thread) {
    const Place place = first_place(along, thread);
    float* target = stage + cursor.target;
    const uint32_t* source = cursor.source;
    if (along == Along::rows) {
      if (place.column >= columns_at_once) return;
#pragma unroll 1  // else sums of six planes lie in the wrong banks of registers
      for (int column = 0; column < Tile::k; column += columns_at_once, source += columns_at_once * strides.column) {
        const int rows = place.column + column < columns ? cursor.rows : 0;
        if (whole_vectors) {
          copy_floats<4>(target + column * PITCH, source, rows >= 4 ? 4 : rows > 0 ? rows : 0);
          continue;
        }
#pragma unroll
        for (int element = 0; element < 4; ++element)
          copy_floats<1>(target + column * PITCH + element, source + element, element < rows);
      }
    } else {
      const int rows = place.column < columns ? cursor.rows : 0;
#pragma unroll
      for (int row = 0; row < ROWS; row += rows_at_once, source += rows_at_once * strides.row)
        copy_floats<1>(target + row, source, row < rows);
    }
  }
};

}  // namespace ksmm
