// How one operand of the multiplication is spread over the lanes of a vector: a functor from an address to a Vector.
//
// In batch_first the lanes are consecutive (r, j) of a row of Y, lane l of the vector that starts at r·d + j = q
// having j = (q + l) mod d. It needs X[n, i, k, (q + l) mod d]: for d = 1 one element in all lanes, for small d a few
// elements over and over, for large d consecutive ones. In batch_last the lanes are consecutive n, and a weight goes
// into all of them.
#pragma once

#include "vector.h"

namespace ksmm {
namespace KSMM_VARIANT {

// Lane l holds element l mod `period`, which divides the number of lanes.
template <int period>
struct Repeat {
  KSMM_INLINE Vector operator()(const float* address) const {
    Vector vector;
    KSMM_UNROLL
    for (int lane = 0; lane < lanes; ++lane) vector[lane] = address[lane % period];
    return vector;
  }
};

template <>
KSMM_INLINE Vector Repeat<1>::operator()(const float* address) const {
  return broadcast(*address);
}

// A broadcast of 2, 4 or 8 floats is one load instruction, which compilers do not find by themselves.
template <>
KSMM_INLINE Vector Repeat<2>::operator()(const float* address) const {
  uint64_t pair;
  std::memcpy(&pair, address, sizeof(pair));
  return (Vector)(pair + Pairs{});
}
#if defined(__AVX512F__)
template <>
KSMM_INLINE Vector Repeat<4>::operator()(const float* address) const {
  return _mm512_broadcast_f32x4(_mm_loadu_ps(address));
}
template <>
KSMM_INLINE Vector Repeat<8>::operator()(const float* address) const {
  return _mm512_broadcast_f32x8(_mm256_loadu_ps(address));
}
#elif defined(__AVX2__)
template <>
KSMM_INLINE Vector Repeat<4>::operator()(const float* address) const {
  const __m128 four = _mm_loadu_ps(address);
  return _mm256_set_m128(four, four);
}
#endif

// Lane l holds element l.
struct Consecutive {
  KSMM_INLINE Vector operator()(const float* address) const { return load(address); }
};

// Lane l of the result is lane order[l] of the vector.
KSMM_INLINE Vector permute(Vector vector, Indices order) {
#if defined(__AVX512F__)
  return _mm512_permutexvar_ps((__m512i)order, vector);
#elif defined(__AVX2__)
  return _mm256_permutevar8x32_ps(vector, (__m256i)order);
#else
  Vector permuted;
  KSMM_UNROLL
  for (int lane = 0; lane < lanes; ++lane) permuted[lane] = vector[order[lane]];
  return permuted;
#endif
}

// Lane l holds element order[l]; reads as many elements as there are lanes.
struct Reorder {
  Indices order;

  KSMM_INLINE Vector operator()(const float* address) const { return permute(load(address), order); }
};

}  // namespace KSMM_VARIANT
}  // namespace ksmm
