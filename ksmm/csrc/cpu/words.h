// What the tiles hold and multiply: words of 32 bits, which are float32 numbers, or, where the machine multiplies
// those, pairs of bfloat16 numbers of neighbouring k. The instruction for pairs takes subnormal numbers, and sums, for
// zeros (Intel's manual, VDPBF16PS); so does oneDNN, which has no other.
#pragma once

#include "element.h"

namespace ksmm {
namespace KSMM_VARIANT {

#if defined(__AVX512BF16__)
struct BFloat16Pairs : BFloat16 {
  static constexpr int word_k = 2;
};
#endif

// A word of each lane, of the elements at `first` and, in pairs, of those of the next k, or zeros where there is none.
template <class Element>
KSMM_INLINE Vector load_words(const typename Element::Stored* first, const typename Element::Stored* second) {
  if constexpr (Element::word_k == 1) {
    return Element::load(first);
  } else {
    const Words low = load_halves(first);
    return (Vector)(second ? low | load_halves(second) << 16 : low);
  }
}

template <class Element>
KSMM_INLINE Vector load_some_words(const typename Element::Stored* first, const typename Element::Stored* second,
                                   int64_t count) {
  if constexpr (Element::word_k == 1) {
    return load_some<Element>(first, count);
  } else {
    typename Element::Stored low[lanes] = {}, high[lanes] = {};
    for (int64_t lane = 0; lane < count; ++lane) low[lane] = first[lane], high[lane] = second ? second[lane] : 0;
    return load_words<Element>(low, high);
  }
}

// As convert().
template <class Element>
KSMM_INLINE void convert_words(const typename Element::Stored* first, const typename Element::Stored* second,
                               int64_t count, float* to, int64_t ahead) {
  if constexpr (Element::word_k == 1) {
    convert<Element>(first, count, to, ahead);
  } else {
    int64_t done = 0;
    for (; done + lanes <= count; done += lanes) {
      prefetch(first, done + ahead);
      if (second) prefetch(second, done + ahead);
      store(to + done, load_words<Element>(first + done, second ? second + done : nullptr));
    }
    if (done < count) {
      const Vector rest = load_some_words<Element>(first + done, second ? second + done : nullptr, count - done);
      std::memcpy(to + done, &rest, static_cast<size_t>(count - done) * sizeof(float));
    }
  }
}

// One word.
template <class Element>
KSMM_INLINE float read_word(const typename Element::Stored* first, const typename Element::Stored* second) {
  if constexpr (Element::word_k == 1) {
    return read<Element>(first);
  } else {
    const uint32_t bits = *first | (second ? static_cast<uint32_t>(*second) << 16 : 0u);
    float word;
    std::memcpy(&word, &bits, sizeof(word));
    return word;
  }
}

// sum + one * other, in each lane, rounded once where the machine has an instruction for that. Compilers are not left
// the choice: from version 13 on GCC makes two instructions of it where a loop has one sum only, which then has other
// bits than the same sum in a larger tile.
template <class Element>
KSMM_INLINE Vector multiply_add(Vector sum, Vector one, Vector other) {
#if defined(__AVX512BF16__)
  if constexpr (Element::word_k == 2) return _mm512_dpbf16_ps(sum, (__m512bh)one, (__m512bh)other);
#endif
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(one, other, sum);
#elif defined(__AVX2__) && defined(__FMA__)
  return _mm256_fmadd_ps(one, other, sum);
#else
  return sum + one * other;
#endif
}

// Rows of d <= lanes neighbouring elements, one for each k, to rows of d words. `count` elements are there; all words
// of `words_k` rows are written, and up to a vector of others after them.
template <class Element>
struct Interleave {
  explicit Interleave(int64_t row) : d(row) {}
  KSMM_INLINE void operator()(const typename Element::Stored* from, int64_t, int64_t words_k, float* to,
                              int64_t ahead) const {
    convert<Element>(from, words_k * d, to, ahead);
  }
  int64_t d;
};
#if defined(__AVX512BF16__)
// A vector of elements holds whole pairs of rows, which a permutation brings into their words.
template <>
struct Interleave<BFloat16Pairs> {
  explicit Interleave(int64_t row) : d(row), words(lanes / d * d) {
    alignas(64) uint16_t from[2 * lanes];
    for (int64_t word = 0; word < lanes; ++word) {
      const int64_t k = word / d * 2, j = word % d;
      from[2 * word] = uint16_t((k * d + j) % (2 * lanes)),
               from[2 * word + 1] = uint16_t((k * d + d + j) % (2 * lanes));
    }
    order = _mm512_load_si512(from);
  }
  KSMM_INLINE void operator()(const uint16_t* from, int64_t count, int64_t words_k, float* to, int64_t ahead) const {
    for (int64_t done = 0; done < words_k * d; done += words) {
      const int64_t rest = larger(0, smaller(count - 2 * done, 2 * lanes));
      prefetch(from, 2 * done + ahead);
      const __mmask32 there = rest == 2 * lanes ? ~__mmask32(0) : (__mmask32(1) << rest) - 1;
      const __m512i elements = _mm512_maskz_loadu_epi16(there, from + 2 * done);
      _mm512_storeu_si512(to + done, _mm512_permutexvar_epi16(order, elements));
    }
  }
  int64_t d, words;
  __m512i order;
};
#endif

}  // namespace KSMM_VARIANT
}  // namespace ksmm
