// A matrix with rows and columns exchanged.
#pragma once

#include <type_traits>

#include "element.h"
#include "square.h"
#include "work.h"

namespace ksmm {
namespace KSMM_VARIANT {

// to[column · rows + row] = from[row · stride + column], for the threads to share.
template <class Stored>
struct Turn {
  static constexpr int64_t side = 16, block = 256;
  const Stored* from;
  int64_t rows, columns, stride;
  Stored* to;

  // Each takes a block of the longer side.
  int64_t tasks() const { return divide_up(larger(rows, columns), block); }

  void work(Tasks& tasks) const {
    for (int64_t first, last; tasks.take(first, last);) {
      const bool tall = rows >= columns;
      const int64_t row = tall ? first * block : 0, last_row = tall ? smaller(last * block, rows) : rows;
      const int64_t column = tall ? 0 : first * block, last_column = tall ? columns : smaller(last * block, columns);
      turn(row, last_row, column, last_column);
    }
  }

  // Square by square: whole lines are written, and those that are read stay in the first-level cache until all of them
  // is.
  void turn(int64_t first_row, int64_t last_row, int64_t first_column, int64_t last_column) const {
    for (int64_t row = first_row; row < last_row; row += side) {
      for (int64_t column = first_column; column < last_column; column += side) {
        turn_square(from + row * stride + column, smaller(side, last_row - row), smaller(side, last_column - column),
                    to + column * rows + row);
      }
    }
  }

  void turn_square(const Stored* square, int64_t height, int64_t width, Stored* target) const {
#if defined(__AVX512F__)
    if constexpr (std::is_same<Stored, float>::value) return turn_vectors(square, height, width, target);
#endif
    for (int64_t column = 0; column < width; ++column)
      for (int64_t row = 0; row < height; ++row) target[column * rows + row] = square[row * stride + column];
  }

#if defined(__AVX512F__)
  void turn_vectors(const float* square, int64_t height, int64_t width, float* target) const {
    alignas(64) float lines[side * side];
    KSMM_UNROLL
    for (int row = 0; row < side; row += 4) {
      Vector four[4] = {};
      KSMM_UNROLL
      for (int at = 0; at < 4; ++at) {
        const float* line = square + (row + at) * stride;
        if (row + at < height) four[at] = width == side ? load(line) : load_some<Float32>(line, width);
      }
      transpose_first(four[0], four[1], four[2], four[3], lines + row * side);
    }
    KSMM_UNROLL
    for (int e = 0; e < 4; ++e) {
      Vector columns_of_e[4];
      transpose_second(lines, e, columns_of_e);
      KSMM_UNROLL
      for (int quarter = 0; quarter < 4; ++quarter) {
        const int64_t column = 4 * quarter + e;
        if (column >= width) continue;
        if (height == side) {
          store(target + column * rows, columns_of_e[quarter]);
        } else {
          store_some<Float32>(target + column * rows, columns_of_e[quarter], height);
        }
      }
    }
  }
#endif
};

}  // namespace KSMM_VARIANT
}  // namespace ksmm
