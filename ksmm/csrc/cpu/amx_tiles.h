// The innermost product by tiles: 16 or 32 rows of weights times 16 or 32 columns of X, of all planes.
//
// Tiles 0 to 3 are sums, 4 and 5 weights, 6 and 7 X.
#pragma once

#include <utility>

#include "amx_planes.h"

namespace ksmm {
namespace KSMM_VARIANT {

struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// The shape of this thread's tiles, for as long as it lives.
class TileSession {
 public:
  TileSession() {
    const TileShapes shapes;
    _tile_loadconfig(&shapes);
  }
  ~TileSession() { _tile_release(); }
};

// One product of planes: 16·R rows of weights times 16·N columns of X, over a tile of k. What `loads` says is loaded,
// the rest is there from the product before.
template <int R, int N, bool loads_weights, bool loads_x>
KSMM_INLINE void multiply_planes(const uint32_t* weights, const uint32_t* x, int64_t step) {
  if constexpr (loads_weights) {
    _tile_loadd(4, weights, 64);
    if constexpr (R == 2) _tile_loadd(5, weights + step, 64);
  }
  if constexpr (loads_x) {
    _tile_loadd(6, x, 64);
    if constexpr (N == 2) _tile_loadd(7, x + step, 64);
  }
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (N == 2) _tile_dpbf16ps(1, 4, 7);
  if constexpr (R == 2) _tile_dpbf16ps(2, 5, 6);
  if constexpr (R == 2 && N == 2) _tile_dpbf16ps(3, 5, 7);
}

// Calls function(Constant{}) with first, first + 1, ...
template <int first, int... numbers, class Function>
KSMM_INLINE void for_each_number(std::integer_sequence<int, numbers...>, const Function& function) {
  (function(std::integral_constant<int, first + numbers>{}), ...);
}

// The products `first` to `last` of a tile of k, one after the other.
template <class Element, int R, int N, int first, int last, class Meanwhile>
KSMM_INLINE void multiply_products(const uint32_t* weights, const uint32_t* x, int64_t step, Meanwhile& meanwhile) {
  using P = Planes<Element>;
  const auto multiply = [&](auto number) {
    constexpr int product = decltype(number)::value;
    constexpr PlaneProduct of = P::of[product], before = P::of[product > first ? product - 1 : product];
    constexpr bool is_first = product == first;
    multiply_planes<R, N, is_first || of.weight != before.weight, is_first || of.x != before.x>(
        weights + of.weight * tile_words, x + of.x * tile_words, step);
    meanwhile();
  };
  for_each_number<first>(std::make_integer_sequence<int, last - first + 1>{}, multiply);
}

// sums[16·R][16·N] = the product of R tile rows of weights and N tile columns of X, over so many tiles of k. Those of
// the first planes come last, so that sums are rounded at their full magnitude no more than once a tile. meanwhile() is
// called for each product of planes.
template <class Element, int R, int N, class Meanwhile>
KSMM_INLINE void multiply_tiles(const uint32_t* weights, const uint32_t* x, int64_t step, int64_t depth, float* sums,
                                int64_t sums_step, Meanwhile& meanwhile) {
  constexpr int last = Planes<Element>::products - 1;
  constexpr int64_t tile_step = Planes<Element>::count * tile_words;
  _tile_zero(0);
  if constexpr (N == 2) _tile_zero(1);
  if constexpr (R == 2) _tile_zero(2);
  if constexpr (R == 2 && N == 2) _tile_zero(3);
  if constexpr (last > 0) {
    for (int64_t tile = 0; tile < depth; ++tile) {
      multiply_products<Element, R, N, 0, last - 1>(weights + tile * tile_step, x + tile * tile_step, step, meanwhile);
    }
  }
  for (int64_t tile = 0; tile < depth; ++tile) {
    multiply_products<Element, R, N, last, last>(weights + tile * tile_step, x + tile * tile_step, step, meanwhile);
  }
  const int64_t bytes = sums_step * int64_t(sizeof(float));
  _tile_stored(0, sums, bytes);
  if constexpr (N == 2) _tile_stored(1, sums + 16, bytes);
  if constexpr (R == 2) _tile_stored(2, sums + 16 * sums_step, bytes);
  if constexpr (R == 2 && N == 2) _tile_stored(3, sums + 16 * sums_step + 16, bytes);
}

}  // namespace KSMM_VARIANT
}  // namespace ksmm
