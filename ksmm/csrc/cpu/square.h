// Squares of 16 × 16 float32 numbers, transposed in registers.
#pragma once

#include "vector.h"

#if defined(__AVX512F__)
namespace ksmm {
namespace KSMM_VARIANT {

// In eight steps, so that few instructions come between two products of tiles (amx_read.h): first, for each quarter of
// its rows, four vectors to lines[4·quarter …];
KSMM_INLINE void transpose_first(Vector a, Vector b, Vector c, Vector d, float* lines) {
  const __m512 low = _mm512_unpacklo_ps((__m512)a, (__m512)b), high = _mm512_unpackhi_ps((__m512)a, (__m512)b);
  const __m512 next_low = _mm512_unpacklo_ps((__m512)c, (__m512)d),
               next_high = _mm512_unpackhi_ps((__m512)c, (__m512)d);
  const auto pairs = [](__m512 one, __m512 other) { return _mm512_shuffle_ps(one, other, 0x44); };
  const auto other_pairs = [](__m512 one, __m512 other) { return _mm512_shuffle_ps(one, other, 0xee); };
  store(lines, (Vector)pairs(low, next_low));
  store(lines + 16, (Vector)other_pairs(low, next_low));
  store(lines + 32, (Vector)pairs(high, next_high));
  store(lines + 48, (Vector)other_pairs(high, next_high));
}
// then, for each e of 0 … 3, the columns e, 4 + e, 8 + e and 12 + e.
KSMM_INLINE void transpose_second(const float* lines, int64_t e, Vector (&columns)[4]) {
  const auto line = [&](int64_t quarter) { return (__m512)load(lines + (4 * quarter + e) * 16); };
  const __m512 even = _mm512_shuffle_f32x4(line(0), line(1), 0x88), odd = _mm512_shuffle_f32x4(line(0), line(1), 0xdd);
  const __m512 next_even = _mm512_shuffle_f32x4(line(2), line(3), 0x88);
  const __m512 next_odd = _mm512_shuffle_f32x4(line(2), line(3), 0xdd);
  columns[0] = (Vector)_mm512_shuffle_f32x4(even, next_even, 0x88);
  columns[1] = (Vector)_mm512_shuffle_f32x4(odd, next_odd, 0x88);
  columns[2] = (Vector)_mm512_shuffle_f32x4(even, next_even, 0xdd);
  columns[3] = (Vector)_mm512_shuffle_f32x4(odd, next_odd, 0xdd);
}

}  // namespace KSMM_VARIANT
}  // namespace ksmm
#endif
