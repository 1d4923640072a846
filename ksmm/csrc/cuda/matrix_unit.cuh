// The instructions of the matrix units (compute capability 8.0 and newer), one function each.
//
// Each thread of a warp holds a part of every 16 x 16 or 16 x 8 matrix: with row = lane / 4 and pair = lane % 4,
//   A (16 x 16): word q holds row + 8 (q % 2), columns 2 pair + 8 (q / 2) and the next;
//   B (16 x 8):  word q holds rows 2 pair + 8 q and the next, column `row`;
//   C (16 x 8):  value e is at row + 8 (e / 2), column 2 pair + e % 2.
#pragma once

#include "bytes.cuh"
#include "copy_groups.cuh"
#include "number.cuh"

namespace ksmm {

#ifdef __CUDACC__

// `valid` of BYTES (4, 8 or 16) from device memory to shared memory, without registers, and zeros for the rest;
// complete after wait_for_groups.
template <int BYTES>
__device__ inline void copy_bytes(void* shared, const void* global, int valid) {
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global), "r"(valid)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(shared)), "l"(global), "n"(BYTES),
                 "r"(valid)
                 : "memory");
}
// Four words of each of four neighbouring lanes (a quad), transposed: word q becomes the word lane % 4 of lane q.
template <class Word>
__device__ inline void transpose_quad(Word (&words)[4], int lane) {
#pragma unroll
  for (int step = 1; step <= 2; step *= 2)
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      const int low = step == 1 ? 2 * pair : pair, high = low + step;
      const bool upper = (lane & step) != 0;
      const Word received = __shfl_xor_sync(~0u, upper ? words[low] : words[high], step);
      words[low] = upper ? received : words[low], words[high] = upper ? words[high] : received;
    }
}

// Four 8 x 8 matrices; lane l gives the address of row l % 8 of matrix l / 8, 16 bytes long and aligned.
__device__ inline void load_matrices(uint32_t (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared_address(row))
               : "memory");
}
// The same, each matrix transposed.
__device__ inline void load_matrices_transposed(uint32_t (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared_address(row))
               : "memory");
}

// C += A B, accumulated in float32.
template <class T>
__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

template <>
__device__ inline void multiply_add<float16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ inline void multiply_add<bfloat16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif

}  // namespace ksmm
