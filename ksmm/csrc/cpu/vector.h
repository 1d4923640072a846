// Vectors of float32 as wide as the instruction set of this translation unit, and the numbers that follow from it.
//
// GCC's vector extensions, which clang has too, compile to any machine. Every header of this folder but variants.h
// lives in the namespace KSMM_VARIANT, so that the same code compiled for two instruction sets has two names: the
// linker must never pick the AVX-512 body of an inline function for a machine without it.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#define KSMM_INLINE inline __attribute__((always_inline))

#if defined(__clang__)
#define KSMM_UNROLL _Pragma("unroll")
#else
#define KSMM_UNROLL _Pragma("GCC unroll 16")
#endif

namespace ksmm {
namespace KSMM_VARIANT {

#if defined(__AVX512F__)
constexpr int lanes = 16;
constexpr int registers = 32;
#elif defined(__AVX__)
constexpr int lanes = 8;
constexpr int registers = 16;
#elif defined(__aarch64__)
constexpr int lanes = 4;
constexpr int registers = 32;
#else
constexpr int lanes = 4;
constexpr int registers = 16;
#endif

typedef float Vector __attribute__((vector_size(4 * lanes)));
typedef int32_t Indices __attribute__((vector_size(4 * lanes)));
typedef uint64_t Pairs __attribute__((vector_size(4 * lanes)));
typedef uint32_t Words __attribute__((vector_size(4 * lanes)));
typedef uint16_t Halves __attribute__((vector_size(2 * lanes)));

KSMM_INLINE Vector load(const float* address) {
  Vector vector;
  std::memcpy(&vector, address, sizeof(vector));
  return vector;
}

// All lanes the same. Subtracting zero changes no value, -0 included, so that compilers see a broadcast.
KSMM_INLINE Vector broadcast(float value) { return value - Vector{}; }

// Has the vector in a register. GCC otherwise reads it from memory for each of its uses, as an operand of instructions,
// which takes longer than these do on AVX2's two load units.
KSMM_INLINE void keep_in_register(Vector& vector) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  asm("" : "+x"(vector));
#else
  static_cast<void>(vector);
#endif
}

KSMM_INLINE void store(float* address, Vector vector) { std::memcpy(address, &vector, sizeof(vector)); }

// Asks for a cache line that will be read once, or written; the address need not be valid.
template <class Element>
KSMM_INLINE void prefetch(const Element* address, int64_t offset) {
  const uintptr_t target = reinterpret_cast<uintptr_t>(address) + uintptr_t(offset) * sizeof(Element);
  __builtin_prefetch(reinterpret_cast<const void*>(target), 0, 2);
}
KSMM_INLINE void prefetch_to_write(float* address) { __builtin_prefetch(address, 1, 3); }

KSMM_INLINE int64_t smaller(int64_t one, int64_t other) { return one < other ? one : other; }
KSMM_INLINE int64_t larger(int64_t one, int64_t other) { return one > other ? one : other; }
KSMM_INLINE int64_t divide_up(int64_t count, int64_t size) { return (count + size - 1) / size; }

}  // namespace KSMM_VARIANT
}  // namespace ksmm
