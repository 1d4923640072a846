// The three number formats, kept as plain bits until they are multiplied: zero bits are the number 0 in each of them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

namespace ksmm {

using float16 = __half;
using bfloat16 = __nv_bfloat16;

template <class T>
struct BitsOf {
  using type = uint16_t;
};
template <>
struct BitsOf<float> {
  using type = uint32_t;
};
template <class T>
using Bits = typename BitsOf<T>::type;

// V neighbours in memory, 16 bytes at most: the unit of every load and store.
template <class T, int V>
struct alignas(V * sizeof(Bits<T>)) Vector {
  static_assert(V * sizeof(Bits<T>) <= 16, "a thread reads and writes 16 bytes at most");
  Bits<T> bits[V];
};

template <class T>
__host__ __device__ inline float to_float(Bits<T> bits);

template <>
__host__ __device__ inline float to_float<float>(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
#endif
}
template <>
__host__ __device__ inline float to_float<float16>(uint16_t bits) {
  __half_raw raw;
  raw.x = bits;
  return __half2float(__half(raw));
}
template <>
__host__ __device__ inline float to_float<bfloat16>(uint16_t bits) {
  __nv_bfloat16_raw raw;
  raw.x = bits;
  return __bfloat162float(__nv_bfloat16(raw));
}

// Rounds to nearest, ties to even.
template <class T>
__host__ __device__ inline Bits<T> to_bits(float value);

template <>
__host__ __device__ inline uint32_t to_bits<float>(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
#endif
}
template <>
__host__ __device__ inline uint16_t to_bits<float16>(float value) {
  return static_cast<__half_raw>(__float2half_rn(value)).x;
}
template <>
__host__ __device__ inline uint16_t to_bits<bfloat16>(float value) {
  return static_cast<__nv_bfloat16_raw>(__float2bfloat16_rn(value)).x;
}

// Reads through the read-only path: nothing that a kernel reads is written while it runs.
template <class Word>
__host__ __device__ inline Word read_only(const Word* address) {
#ifdef __CUDA_ARCH__
  return __ldg(address);
#else
  return *address;
#endif
}

// vector.bits[element], without indexing registers by a variable.
template <class T, int V>
__host__ __device__ inline Bits<T> element_of(const Vector<T, V>& vector, int element) {
  Bits<T> bits = vector.bits[0];
#pragma unroll
  for (int index = 1; index < V; ++index)
    if (index == element) bits = vector.bits[index];
  return bits;
}

template <class T, int V>
__host__ __device__ inline Vector<T, V> load_vector(const Bits<T>* address) {
  Vector<T, V> vector;
#ifdef __CUDA_ARCH__
  if constexpr (sizeof vector == 16) {
    const uint4 words = __ldg(reinterpret_cast<const uint4*>(address));
    memcpy(&vector, &words, sizeof vector);
  } else if constexpr (sizeof vector == 8) {
    const uint2 words = __ldg(reinterpret_cast<const uint2*>(address));
    memcpy(&vector, &words, sizeof vector);
  } else if constexpr (V == 1) {
    vector.bits[0] = __ldg(address);
  } else {
    static_assert(sizeof vector == 4, "one, two or four words");
    const uint32_t word = __ldg(reinterpret_cast<const uint32_t*>(address));
    memcpy(&vector, &word, sizeof vector);
  }
#else
  memcpy(&vector, address, sizeof vector);
#endif
  return vector;
}

// 32 bits of a vector, as they are in memory.
template <class T, int V>
__host__ __device__ inline uint32_t word_of(const Vector<T, V>& vector, int index) {
  if constexpr (sizeof(Bits<T>) == 4)
    return vector.bits[index];
  else
    return vector.bits[2 * index] | static_cast<uint32_t>(vector.bits[2 * index + 1]) << 16;
}

// To device memory, in one instruction: the compiler cuts a plain assignment into stores of single words.
template <class T, int V>
__host__ __device__ inline void store_global(Bits<T>* address, const Vector<T, V>& vector) {
#ifdef __CUDA_ARCH__
  constexpr int words = sizeof vector / 4;
  static_assert(words == 1 || words == 2 || words == 4, "a store is of one, two or four words");
  if constexpr (words == 4)
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(word_of(vector, 0)),
                 "r"(word_of(vector, 1)), "r"(word_of(vector, 2)), "r"(word_of(vector, 3))
                 : "memory");
  else if constexpr (words == 2)
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(address), "r"(word_of(vector, 0)), "r"(word_of(vector, 1))
                 : "memory");
  else
    asm volatile("st.global.b32 [%0], %1;" ::"l"(address), "r"(word_of(vector, 0)) : "memory");
#else
  memcpy(address, &vector, sizeof vector);
#endif
}

#ifdef __CUDACC__

// Two numbers, rounded to T, as a word: the first in the lower half. Compute capability 8.0 and newer.
template <class T>
__device__ inline uint32_t pack_pair(float low, float high) {
  return static_cast<uint32_t>(to_bits<T>(low)) | static_cast<uint32_t>(to_bits<T>(high)) << 16;
}
template <>
__device__ inline uint32_t pack_pair<float16>(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
template <>
__device__ inline uint32_t pack_pair<bfloat16>(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

#endif

}  // namespace ksmm
