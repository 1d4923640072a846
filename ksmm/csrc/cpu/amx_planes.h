// Numbers as sums of bfloat16 numbers, planes, which the tile products (AMX) of newer Intel processors multiply.
//
// A float32 number has 24 bits, three times bfloat16's 8, and the same exponents: two roundings to the nearest leave
// a rest that is a bfloat16 number itself. Of the nine products of two such sums six are computed; those that are left
// out (of a second plane and a third, or two thirds) are below 2^-24 of the whole. float16 has 11 bits, two planes and
// all four products, so that each is exact. What a sum of planes cannot be is infinite or NaN: the rest is NaN then,
// and so is every sum that it goes into, which whoever reads the sums must notice.
#pragma once

#include "element.h"
#include "square.h"

namespace ksmm {
namespace KSMM_VARIANT {

// A plane of X and one of the weights. Products that are small beside the last one come first, and planes that follow
// each other are the same where possible: they are loaded once.
struct PlaneProduct {
  int x, weight;
};

template <class Element>
struct Planes;
template <>
struct Planes<Float32> {
  static constexpr int count = 3, products = 6;
  static constexpr PlaneProduct of[products] = {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}};
};
template <>
struct Planes<Float16> {
  static constexpr int count = 2, products = 4;
  static constexpr PlaneProduct of[products] = {{1, 0}, {1, 1}, {0, 1}, {0, 0}};
};
template <>
struct Planes<BFloat16> {
  static constexpr int count = 1, products = 1;
  static constexpr PlaneProduct of[products] = {{0, 0}};
};

// A tile: 16 rows of 64 bytes.
constexpr int64_t tile_words = 256;
constexpr int64_t tile_k = 32;

// A pair of numbers in each lane to a pair of bfloat16 numbers for each plane, whose words lie a tile apart.
template <int count>
KSMM_INLINE void split_pairs(Vector first, Vector second, uint32_t* to) {
  KSMM_UNROLL
  for (int plane = 0; plane < count; ++plane, to += tile_words) {
    Words low = (Words)first, high = (Words)second;
    if (plane + 1 < count) low += 0x8000, high += 0x8000;  // the last one is exact as it is
    const Words pairs = low >> 16 | (high & 0xffff0000);
    std::memcpy(to, &pairs, sizeof(pairs));
    first -= (Vector)(low & 0xffff0000);
    second -= (Vector)(high & 0xffff0000);
  }
}

// How many of 16 pairs of numbers are 2^20 apart or more, and neither of them zero. In a row of weights where a third
// are, one product dominates each sum, if X is like that, too: multiply-adds then round once or twice, and sums of
// tiles, which round more often, err up to 1.1 times as much. So do sums of weights below 2^-100, which count, too: the
// tile products take planes below 2^-126 for zero.
KSMM_INLINE int pairs_to_watch(Vector first, Vector second) {
  const __m512i one = (__m512i)((Words)first & 0x7fffffff), other = (__m512i)((Words)second & 0x7fffffff);
  const __m512i least = _mm512_min_epu32(one, other), most = _mm512_max_epu32(one, other);
  const __m512i apart = _mm512_sub_epi32(most, least);
  const __mmask16 far = _mm512_cmpge_epi32_mask(apart, _mm512_set1_epi32(20 << 23));
  const __mmask16 small = _mm512_cmpge_epi32_mask(_mm512_set1_epi32(((127 - 100) << 23) - 1), most);
  return __builtin_popcount(_mm512_mask_test_epi32_mask(far, least, least) |
                            _mm512_mask_test_epi32_mask(small, most, most));
}

// What is known of sums of products of planes: some may be wrong where numbers are infinite or NaN (which may be of
// planes alone), or so small that of their smallest products some were less than any normal number, which the tile
// products take for zero.
class Doubt {
 public:
  KSMM_INLINE void look_at(Vector sums) {
    const __m512i magnitude = (__m512i)((Words)sums & 0x7fffffff);
    most_ = _mm512_max_epu32(most_, magnitude);
    least_ = _mm512_min_epu32(least_, magnitude);
    least_but_zero_ = _mm512_min_epu32(least_but_zero_, (__m512i)((Words)magnitude - 1));
  }
  bool is_there() const {
    return _mm512_reduce_max_epu32(most_) >= 0x7f800000 || _mm512_reduce_min_epu32(least_but_zero_) < smallest - 1;
  }
  // A sum of zero may be one of products that were taken for zero.
  bool has_zero() const { return _mm512_reduce_min_epu32(least_) == 0; }

 private:
  static constexpr uint32_t smallest = (127 - 80) << 23;  // 2^-80: of 2^10 k, all that is lost is 2^-33 of it
  __m512i most_ = _mm512_setzero_si512(), least_ = _mm512_set1_epi32(-1), least_but_zero_ = _mm512_set1_epi32(-1);
};

}  // namespace KSMM_VARIANT
}  // namespace ksmm
