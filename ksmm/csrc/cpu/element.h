// Conversion between the stored elements (float32, float16, bfloat16) and float32, a vector at a time.
//
// X and the weights are converted once, on their way into the tiles that the multiplication reads, Y on its way out,
// so that the multiplication itself knows float32 only. Rounding is to the nearest, ties to even; NaN stays NaN.
// float16 uses the machine's own instructions where it has them, else integer arithmetic without branches.
#pragma once

#include "vector.h"

namespace ksmm {
namespace KSMM_VARIANT {

struct Float32 {
  using Stored = float;
  static constexpr int word_k = 1;  // how many k a word of the tiles holds
  static KSMM_INLINE Vector load(const Stored* address) { return KSMM_VARIANT::load(address); }
  static KSMM_INLINE void store(Stored* address, Vector vector) { KSMM_VARIANT::store(address, vector); }
};

KSMM_INLINE Words load_halves(const uint16_t* address) {
  Halves halves;
  std::memcpy(&halves, address, sizeof(halves));
  return __builtin_convertvector(halves, Words);
}

KSMM_INLINE void store_halves(uint16_t* address, Words words) {
  const Halves halves = __builtin_convertvector(words, Halves);
  std::memcpy(address, &halves, sizeof(halves));
}

// `chosen` where the condition (a comparison's all-ones or zero words) holds, else `other`.
KSMM_INLINE Words select(Indices condition, Words chosen, Words other) {
  return ((Words)condition & chosen) | (~(Words)condition & other);
}

struct BFloat16 {
  using Stored = uint16_t;
  static constexpr int word_k = 1;

  static KSMM_INLINE Vector load(const Stored* address) { return (Vector)(load_halves(address) << 16); }

  static KSMM_INLINE void store(Stored* address, Vector vector) {
    const Words bits = (Words)vector;
    const Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    store_halves(address, select(vector != vector, (bits >> 16) | 0x40, rounded));
  }
};

struct Float16 {
  using Stored = uint16_t;
  static constexpr int word_k = 1;

#if defined(__AVX512F__)
  static KSMM_INLINE Vector load(const Stored* address) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(address)));
  }
  static KSMM_INLINE void store(Stored* address, Vector vector) {
    const __m256i halves = _mm512_cvtps_ph(vector, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(address), halves);
  }
#elif defined(__AVX2__) && defined(__F16C__)
  static KSMM_INLINE Vector load(const Stored* address) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(address)));
  }
  static KSMM_INLINE void store(Stored* address, Vector vector) {
    const __m128i halves = _mm256_cvtps_ph(vector, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(address), halves);
  }
#else
  // The exponent's bias differs by 112; multiplying by 2^112 corrects it for subnormal numbers, too.
  static KSMM_INLINE Vector load(const Stored* address) {
    const Words bits = load_halves(address);
    const Words magnitude = (bits & 0x7fff) << 13;
    const Words finite = (Words)((Vector)magnitude * 0x1p112f);
    const Words value = select(magnitude >= 0x0f800000, magnitude | 0x7f800000, finite);
    return (Vector)(value | (bits & 0x8000) << 16);
  }

  // Below 2^-14, adding 0.5 rounds to multiples of 2^-24, the spacing of subnormal numbers; above, rounding is in the
  // bits. What rounds past 65504 is infinite, and NaN keeps a bit of its payload.
  static KSMM_INLINE void store(Stored* address, Vector vector) {
    const Words bits = (Words)vector;
    const Words magnitude = bits & 0x7fffffff;
    const Words normal = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    const Words subnormal = (Words)((Vector)magnitude + 0.5f) - 0x3f000000;
    Words value = select(magnitude < 0x38800000, subnormal, normal);
    value = select(magnitude >= 0x477ff000, Words{} + 0x7c00, value);
    value = select(magnitude > 0x7f800000, Words{} + 0x7e00, value);
    store_halves(address, value | ((bits >> 16) & 0x8000));
  }
#endif
};

// The first `count` lanes, zeros in the others.
template <class Element>
KSMM_INLINE Vector load_some(const typename Element::Stored* address, int64_t count) {
  typename Element::Stored whole[lanes] = {};
  for (int64_t lane = 0; lane < count; ++lane) whole[lane] = address[lane];
  return Element::load(whole);
}

template <class Element>
KSMM_INLINE void store_some(typename Element::Stored* address, Vector vector, int64_t count) {
  typename Element::Stored whole[lanes];
  Element::store(whole, vector);
  for (int64_t lane = 0; lane < count; ++lane) address[lane] = whole[lane];
}

// `count` consecutive elements to float32. Meanwhile those that lie `ahead` elements further, which will be wanted
// next, are fetched into the cache: rows are too short for the machine to see this by itself.
template <class Element>
KSMM_INLINE void convert(const typename Element::Stored* from, int64_t count, float* to, int64_t ahead) {
  int64_t done = 0;
  for (; done + lanes <= count; done += lanes) {
    prefetch(from, done + ahead);
    store(to + done, Element::load(from + done));
  }
  if (done < count) {
    const Vector rest = load_some<Element>(from + done, count - done);
    for (int64_t lane = 0; done + lane < count; ++lane) to[done + lane] = rest[lane];
  }
}

// `count` float32 numbers to consecutive elements.
template <class Element>
KSMM_INLINE void write(const float* from, int64_t count, typename Element::Stored* to) {
  int64_t done = 0;
  for (; done + lanes <= count; done += lanes) Element::store(to + done, load(from + done));
  if (done < count) store_some<Element>(to + done, load(from + done), count - done);
}

// One element to float32.
template <class Element>
KSMM_INLINE float read(const typename Element::Stored* address) {
  return load_some<Element>(address, 1)[0];
}
template <>
KSMM_INLINE float read<Float32>(const float* address) {
  return *address;
}
#if defined(__F16C__)
template <>
KSMM_INLINE float read<Float16>(const uint16_t* address) {
  return _mm_cvtph_ps(_mm_cvtsi32_si128(*address))[0];
}
#endif
template <>
KSMM_INLINE float read<BFloat16>(const uint16_t* address) {
  const uint32_t bits = uint32_t(*address) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace KSMM_VARIANT
}  // namespace ksmm
