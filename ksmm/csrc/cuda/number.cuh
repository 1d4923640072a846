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

// Four neighbours in memory: 16 bytes of float32, 8 bytes of float16 or bfloat16. The unit of every load and store.
template <class T>
struct alignas(4 * sizeof(Bits<T>)) Quad {
  Bits<T> bits[4];
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

__host__ __device__ inline Quad<float> load_quad(const Quad<float>* address) {
#ifdef __CUDA_ARCH__
  const uint4 word = __ldg(reinterpret_cast<const uint4*>(address));
  return {{word.x, word.y, word.z, word.w}};
#else
  return *address;
#endif
}
template <class T>
__host__ __device__ inline Quad<T> load_quad(const Quad<T>* address) {
#ifdef __CUDA_ARCH__
  const uint2 word = __ldg(reinterpret_cast<const uint2*>(address));
  return {{static_cast<uint16_t>(word.x), static_cast<uint16_t>(word.x >> 16), static_cast<uint16_t>(word.y),
           static_cast<uint16_t>(word.y >> 16)}};
#else
  return *address;
#endif
}

}  // namespace ksmm
