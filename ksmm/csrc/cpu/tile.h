// The innermost product: a tile of M × N vectors of sums that stay in registers while k runs.
//
//   sum[m][v] += spread(rows[m, k]) * vectors[k, v]        for 0 <= k < depth, m < M, v < N
//
// Each vector that is loaded is used M times and each row element N times, so that with M + N loads for M·N
// multiply-adds the multiply-add units are the limit, not the loads. M·N sums, N vectors and one row element fill the
// register file. The lines of Y that the tile goes to are fetched while it is computed, a row at a time: all at once
// they would keep the loads waiting. So would copying X at once; the load and store units have time for it here, and
// `meanwhile`, called once for meanwhile.interval() k, does a little of that for the next tiles. Rows lie `row_step`
// apart, which the compiler knows, and their elements `depth_step`, which it knows where it is a Constant; vectors are
// read one after the other (PackedVectors), or from where they are stored (StoredVectors).
#pragma once

#include <type_traits>

#include "spread.h"
#include "words.h"

namespace ksmm {
namespace KSMM_VARIANT {

// The largest M for each N.
constexpr int tile_rows(int width) {
  if (registers == 32) return width == 4 ? 6 : width == 3 ? 8 : 12;
  return width == 3 ? 4 : width == 2 ? 6 : 8;
}
constexpr int widest_tile = registers == 32 ? 4 : 3;
constexpr int most_rows = 12;
constexpr int tile_floats = (registers == 32 ? 24 : 12) * lanes;  // no tile has more sums

template <int64_t value>
using Constant = std::integral_constant<int64_t, value>;

// N vectors for each k, one after the other.
template <int N>
struct PackedVectors {
  const float* at;
  KSMM_INLINE Vector get(int v) const { return load(at + v * lanes); }
  KSMM_INLINE void next() { at += N * lanes; }
};

// N vectors for each k, where they are in memory: vector_step apart, and k_step from one k to the next. They are asked
// for ahead: each k may lie in another page, and many in the same few sets of the first-level cache.
struct StoredVectors {
  static constexpr int ahead = 16;
  const float* at;
  int64_t k_step, vector_step;
  KSMM_INLINE Vector get(int v) const {
    prefetch(at, ahead * k_step + v * vector_step);
    return load(at + v * vector_step);
  }
  KSMM_INLINE void next() { at += k_step; }
};

// What is added to the sums of a tile and where they go. Both are float32.
struct TileTarget {
  const float* start;  // the sums so far: M × N vectors, one after the other; null: zero
  float* sums;
  int64_t row_step, vector_step;
  const float* bias = nullptr;  // added to the sums in the end, unless null
  int64_t bias_row_step = 0, bias_vector_step = 0;
};

template <class Element, int M, int N, int row_step, class BiasSpread, class Step, class Spread, class Vectors,
          class Meanwhile>
void multiply_tile(int64_t depth, Step depth_step, Spread spread, const float* rows, Vectors vectors,
                   const TileTarget& given, Meanwhile& meanwhile) {
  const TileTarget target = given;  // which no store changes; passed by value it would be written and read once more
  Vector sum[M][N];
  KSMM_UNROLL
  for (int m = 0; m < M; ++m) {
    KSMM_UNROLL
    for (int v = 0; v < N; ++v) sum[m][v] = Vector{};
  }
  float* wanted = target.sums;
  int rows_wanted = M;
  for (int64_t k = 0; k < depth;) {
    if (rows_wanted-- > 0) {
      KSMM_UNROLL
      for (int v = 0; v < N; ++v) prefetch_to_write(wanted + v * target.vector_step);
      wanted += target.row_step;
    }
    meanwhile();
    for (const int64_t end = smaller(k + meanwhile.interval(), depth); k < end;
         ++k, rows += depth_step, vectors.next()) {
      Vector vector[N];
      KSMM_UNROLL
      for (int v = 0; v < N; ++v) vector[v] = vectors.get(v);
      KSMM_UNROLL
      for (int m = 0; m < M; ++m) {
        Vector element = spread(rows + m * row_step);
        keep_in_register(element);
        KSMM_UNROLL
        for (int v = 0; v < N; ++v) sum[m][v] = multiply_add<Element>(sum[m][v], element, vector[v]);
      }
    }
  }
  if (target.start) {  // not before: sums of sums err less than one long sum
    KSMM_UNROLL
    for (int m = 0; m < M; ++m) {
      KSMM_UNROLL
      for (int v = 0; v < N; ++v) sum[m][v] += load(target.start + (m * N + v) * lanes);
    }
  }
  if (target.bias) {
    KSMM_UNROLL
    for (int m = 0; m < M; ++m) {
      KSMM_UNROLL
      for (int v = 0; v < N; ++v) {
        sum[m][v] += BiasSpread{}(target.bias + m * target.bias_row_step + v * target.bias_vector_step);
      }
    }
  }
  KSMM_UNROLL
  for (int m = 0; m < M; ++m) {
    KSMM_UNROLL
    for (int v = 0; v < N; ++v) store(target.sums + m * target.row_step + v * target.vector_step, sum[m][v]);
  }
}

// The smallest compiled number of rows that holds `rows`.
template <int N>
KSMM_INLINE int compiled_rows(int64_t rows) {
  return rows >= 5 ? tile_rows(N) : rows > 2 ? 4 : int(rows);
}

// multiply_tile with M = compiled_rows(rows).
template <class Element, int N, int row_step, class BiasSpread, class Step, class Spread, class Vectors,
          class Meanwhile>
KSMM_INLINE void multiply_rows(int64_t rows, int64_t depth, Step depth_step, Spread spread, const float* from,
                               Vectors vectors, const TileTarget& target, Meanwhile& meanwhile) {
  switch (compiled_rows<N>(rows)) {
    case 1:
      return multiply_tile<Element, 1, N, row_step, BiasSpread>(depth, depth_step, spread, from, vectors, target,
                                                                meanwhile);
    case 2:
      return multiply_tile<Element, 2, N, row_step, BiasSpread>(depth, depth_step, spread, from, vectors, target,
                                                                meanwhile);
    case 4:
      return multiply_tile<Element, 4, N, row_step, BiasSpread>(depth, depth_step, spread, from, vectors, target,
                                                                meanwhile);
    default:
      return multiply_tile<Element, tile_rows(N), N, row_step, BiasSpread>(depth, depth_step, spread, from, vectors,
                                                                           target, meanwhile);
  }
}

// The width N, of up to `widest`, whose tiles cover `vectors` vectors with the least work: padding counts, and so do
// narrow tiles' loads.
inline int choose_width(int64_t vectors, int widest = widest_tile) {
  int best = 1;
  int64_t least = INT64_MAX;
  for (int width = 1; width <= widest; ++width) {
    const int64_t loads = 100 / width + 100 / tile_rows(width);  // per 100 multiply-adds
    const int64_t work = divide_up(vectors, width) * width * (400 + loads);
    if (work <= least) best = width, least = work;
  }
  return best;
}

template <int value>
struct Width : std::integral_constant<int, value> {};

// Calls function(Width<width>{}).
template <class Function>
KSMM_INLINE void with_width(int width, const Function& function) {
  switch (width) {
    case 1: return function(Width<1>{});
    case 2: return function(Width<2>{});
    case 3: return function(Width<3>{});
    default: return function(Width<widest_tile>{});
  }
}

}  // namespace KSMM_VARIANT
}  // namespace ksmm
