// The instructions of AVX-512 and AMX that ksmm/csrc/cpu/amx*.h use, in plain C++, for machines without them.
//
// Named after the intrinsics, which are macros here; so this comes before the headers that use them.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#define __AVX512F__ 1
#define __m512 emulated::Floats
#define __m512i emulated::Words
#define __m256i emulated::Halves
#define __mmask16 uint16_t

namespace emulated {

typedef float Floats __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));
typedef uint16_t Halves __attribute__((vector_size(32)));

template <class To, class From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// Lane by lane.
template <class Vector, class Function>
Vector of_lanes(const Function& function) {
  Vector result{};
  for (int lane = 0; lane < 16; ++lane) result[lane] = function(lane);
  return result;
}
template <class Function>
uint16_t mask_of(const Function& function) {
  uint32_t mask = 0;
  for (int lane = 0; lane < 16; ++lane) mask |= uint32_t(function(lane) ? 1 : 0) << lane;
  return uint16_t(mask);
}

inline Words set_all(int32_t value) {
  return of_lanes<Words>([&](int) { return uint32_t(value); });
}
inline Floats set_all_floats(float value) {
  return of_lanes<Floats>([&](int) { return value; });
}
inline Words least(Words a, Words b) {
  return of_lanes<Words>([&](int lane) { return a[lane] < b[lane] ? a[lane] : b[lane]; });
}
inline Words most(Words a, Words b) {
  return of_lanes<Words>([&](int lane) { return a[lane] > b[lane] ? a[lane] : b[lane]; });
}
inline uint32_t least_of(Words a) {
  uint32_t found = a[0];
  for (int lane = 1; lane < 16; ++lane) found = a[lane] < found ? a[lane] : found;
  return found;
}
inline uint32_t most_of(Words a) {
  uint32_t found = a[0];
  for (int lane = 1; lane < 16; ++lane) found = a[lane] > found ? a[lane] : found;
  return found;
}
inline uint16_t at_least(Words a, Words b) {
  return mask_of([&](int lane) { return int32_t(a[lane]) >= int32_t(b[lane]); });
}
inline uint16_t have_bits(uint16_t mask, Words a, Words b) {
  return mask & mask_of([&](int lane) { return (a[lane] & b[lane]) != 0; });
}
inline Floats masked(Floats other, uint16_t mask, Floats chosen) {
  return of_lanes<Floats>([&](int lane) { return mask >> lane & 1 ? chosen[lane] : other[lane]; });
}
inline Floats gather(Words places, const float* from) {
  return of_lanes<Floats>([&](int lane) { return from[int32_t(places[lane])]; });
}

// Within each quarter of four lanes: its first two, or last two, of a and b in turns.
inline Floats unpack(Floats a, Floats b, int first) {
  return of_lanes<Floats>([&](int lane) { return (lane % 2 ? b : a)[lane / 4 * 4 + first + lane % 4 / 2]; });
}
// Two lanes of each quarter of a, then two of b's, by two bits each.
inline Floats shuffle(Floats a, Floats b, int places) {
  return of_lanes<Floats>(
      [&](int lane) { return (lane % 4 < 2 ? a : b)[lane / 4 * 4 + (places >> lane % 4 * 2 & 3)]; });
}
// Two whole quarters of a, then two of b.
inline Floats shuffle_quarters(Floats a, Floats b, int places) {
  return of_lanes<Floats>([&](int lane) { return (lane < 8 ? a : b)[(places >> lane / 4 * 2 & 3) * 4 + lane % 4]; });
}

inline float half_to_float(uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const float sign = half & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(float(1024 + fraction), exponent - 25) : std::ldexp(float(fraction), -24));
}
// To the nearest, ties to even.
inline uint16_t float_to_half(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(double(value));
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520) return sign | 0x7c00;
  if (magnitude < std::ldexp(1.0, -14)) return sign | uint16_t(std::nearbyint(std::ldexp(magnitude, 24)));
  int exponent;
  const double fraction = std::frexp(magnitude, &exponent);  // in [1/2, 1)
  const auto rounded = uint32_t(std::nearbyint(std::ldexp(fraction, 11)));
  return sign | uint16_t((uint32_t(exponent + 13) << 10) + rounded);
}
inline Floats from_halves(Halves halves) {
  return of_lanes<Floats>([&](int lane) { return half_to_float(halves[lane]); });
}
inline Halves to_halves(Floats floats) {
  return of_lanes<Halves>([&](int lane) { return float_to_half(floats[lane]); });
}
inline Halves load_halves(const void* from) {
  Halves halves;
  std::memcpy(&halves, from, sizeof(halves));
  return halves;
}

// Eight tiles of 16 rows of 64 bytes, of this thread.
struct Tiles {
  bool configured = false;
  uint32_t words[8][16][16];
};
inline Tiles& tiles() {
  static thread_local Tiles all;
  return all;
}
inline void load_tile(int tile, const void* from, int64_t step) {
  for (int row = 0; row < 16; ++row)
    std::memcpy(tiles().words[tile][row], static_cast<const char*>(from) + row * step, 64);
}
inline void store_tile(int tile, void* to, int64_t step) {
  for (int row = 0; row < 16; ++row) std::memcpy(static_cast<char*>(to) + row * step, tiles().words[tile][row], 64);
}

inline float without_subnormals(float value) {
  return std::fabs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value;
}
inline float of_bfloat16(uint32_t bits) { return without_subnormals(bits_as<float>(bits << 16)); }

// sums[m][n] += of 16 pairs of k: weights[m][2 k] x[k][2 n] + weights[m][2 k + 1] x[k][2 n + 1], subnormals as zero.
inline void multiply_tiles(int sums, int weights, int x) {
  for (int m = 0; m < 16; ++m)
    for (int k = 0; k < 16; ++k)
      for (int n = 0; n < 16; ++n) {
        float sum = bits_as<float>(tiles().words[sums][m][n]);
        const uint32_t one = tiles().words[weights][m][k], other = tiles().words[x][k][n];
        for (int half = 0; half < 2; ++half) {
          const float product = of_bfloat16(one >> 16 * half & 0xffff) * of_bfloat16(other >> 16 * half & 0xffff);
          sum = without_subnormals(sum + without_subnormals(product));
        }
        tiles().words[sums][m][n] = bits_as<uint32_t>(sum);
      }
}

}  // namespace emulated

// Some are macros already, which ones depends on the compiler.
#undef _mm512_cmpge_epi32_mask
#undef _mm512_cvtph_ps
#undef _mm512_cvtps_ph
#undef _mm512_i32gather_ps
#undef _mm512_mask_mov_ps
#undef _mm512_mask_test_epi32_mask
#undef _mm512_max_epu32
#undef _mm512_min_epu32
#undef _mm512_mullo_epi32
#undef _mm512_reduce_max_epu32
#undef _mm512_reduce_min_epu32
#undef _mm512_set1_epi32
#undef _mm512_set1_ps
#undef _mm512_setr_epi32
#undef _mm512_setzero_si512
#undef _mm512_shuffle_f32x4
#undef _mm512_shuffle_ps
#undef _mm512_sub_epi32
#undef _mm512_unpackhi_ps
#undef _mm512_unpacklo_ps
#undef _mm256_loadu_si256
#undef _mm256_storeu_si256
#undef _tile_dpbf16ps
#undef _tile_loadconfig
#undef _tile_loadd
#undef _tile_release
#undef _tile_stored
#undef _tile_zero

#define _mm512_cmpge_epi32_mask(a, b) emulated::at_least(a, b)
#define _mm512_cvtph_ps(a) emulated::from_halves(a)
#define _mm512_cvtps_ph(a, rounding) emulated::to_halves(a)
#define _mm512_i32gather_ps(places, from, scale) emulated::gather(places, from)
#define _mm512_mask_mov_ps(other, mask, chosen) emulated::masked(other, mask, chosen)
#define _mm512_mask_test_epi32_mask(mask, a, b) emulated::have_bits(mask, a, b)
#define _mm512_max_epu32(a, b) emulated::most(a, b)
#define _mm512_min_epu32(a, b) emulated::least(a, b)
#define _mm512_mullo_epi32(a, b) ((a) * (b))
#define _mm512_reduce_max_epu32(a) emulated::most_of(a)
#define _mm512_reduce_min_epu32(a) emulated::least_of(a)
#define _mm512_set1_epi32(value) emulated::set_all(value)
#define _mm512_set1_ps(value) emulated::set_all_floats(value)
#define _mm512_setr_epi32(...) (emulated::Words{__VA_ARGS__})
#define _mm512_setzero_si512() (emulated::Words{})
#define _mm512_shuffle_f32x4(a, b, places) emulated::shuffle_quarters(a, b, places)
#define _mm512_shuffle_ps(a, b, places) emulated::shuffle(a, b, places)
#define _mm512_sub_epi32(a, b) ((a) - (b))
#define _mm512_unpackhi_ps(a, b) emulated::unpack(a, b, 2)
#define _mm512_unpacklo_ps(a, b) emulated::unpack(a, b, 0)
#define _mm256_loadu_si256(from) emulated::load_halves(from)
#define _mm256_storeu_si256(to, halves) std::memcpy(to, &(halves), 32)
#define _tile_dpbf16ps(sums, weights, x) emulated::multiply_tiles(sums, weights, x)
#define _tile_loadconfig(shapes) static_cast<void>(emulated::tiles().configured = true)
#define _tile_loadd(tile, from, step) emulated::load_tile(tile, from, step)
#define _tile_release() static_cast<void>(emulated::tiles().configured = false)
#define _tile_stored(tile, to, step) emulated::store_tile(tile, to, step)
#define _tile_zero(tile) std::memset(emulated::tiles().words[tile], 0, sizeof(emulated::tiles().words[tile]))
