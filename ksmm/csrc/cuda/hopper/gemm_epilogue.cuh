// The steps that the gemm kernels, and those that grew out of them, have: copies by coordinates, the products of a
// stage, and the way of the sums to Y.
#pragma once

#include "copy.cuh"
#include "gemm_task.cuh"
#include "overlap.cuh"
#include "products.cuh"

namespace ksmm::hopper {

// Loads 64 n by 64 k of X.
template <bool ROWS_CONTIGUOUS>
__device__ inline void load_box(void* shared, const CUtensorMap& map, Keep keep, Barrier& barrier, int n, int k, int i,
                                int j) {
  if constexpr (ROWS_CONTIGUOUS)
    load(shared, map, barrier, keep, n, j, k, i);
  else
    load(shared, map, barrier, keep, k, n, j, i);
}

// Asks for the same into the L2 cache.
template <bool ROWS_CONTIGUOUS>
__device__ inline void prefetch_x(const GemmTask& task, int n, int k, int i, int j) {
  if constexpr (ROWS_CONTIGUOUS)
    prefetch_box(task.x, task.x_keep, n, j, k, i);
  else
    prefetch_box(task.x, task.x_keep, k, n, j, i);
}

// As store(), for bytes that stay in the L2 cache so long.
__device__ inline void store_keeping(const CUtensorMap& map, const void* shared, Keep keep, int c0, int c1, int c2,
                                     int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group.L2::cache_hint [%1, {%2, %3, %4, %5}], [%0], %6;" ::"r"(
          shared_address(shared)),
      "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(static_cast<uint64_t>(keep))
      : "memory");
}

__device__ inline void store_keeping(const CUtensorMap& map, const void* shared, Keep keep, int c0, int c1, int c2,
                                     int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group.L2::cache_hint [%1, {%2, %3, %4, %5, %6}], [%0], %7;" ::
          "r"(shared_address(shared)),
      "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "l"(static_cast<uint64_t>(keep))
      : "memory");
}

// Stores 64 n by 64 r of Y, without what lies beyond b and the batch.
template <bool ROWS_CONTIGUOUS>
__device__ inline void store_box(const GemmTask& task, const void* shared, int n, int r, int i, int j) {
  if constexpr (ROWS_CONTIGUOUS)
    store_keeping(task.y, shared, task.y_keep, n, j, r, i);
  else
    store_keeping(task.y, shared, task.y_keep, r, n, j, i);
}

// Keeps the compiler from moving the sums about while products are under way, which would serialise them.
template <int COLUMNS>
__device__ inline void fence_sums(float (&sums)[COLUMNS / 2]) {
#pragma unroll
  for (int at = 0; at < COLUMNS / 2; ++at) fence_register(sums[at]);
}

// Adds the products of 64 rows of X with the columns of W over the 64 k of a stage. Beyond c both are zero.
template <class T, int COLUMNS, bool ROWS_CONTIGUOUS>
__device__ inline void multiply_stage(float (&sums)[COLUMNS / 2], uint32_t x, uint32_t weight) {
  // 16 k further are two groups of eight rows of 128 bytes, or 32 bytes along a row
  constexpr uint32_t x_advance = ROWS_CONTIGUOUS ? 2048 : 32;
#pragma unroll
  for (int step = 0; step < gemm_step / 16; ++step)
    Products<T, COLUMNS>::template from_shared<ROWS_CONTIGUOUS>(
        sums, describe(x + step * x_advance, Swizzle::bytes_128, 1024),
        describe(weight + step * 32, Swizzle::bytes_128, 1024), true);
}

// Four 8 x 8 matrices, as the sums hold them, to rows of 16 bytes; transposed so that 8 n of one r follow each other.
template <bool TRANSPOSED>
__device__ inline void store_matrices(uint32_t address, const uint32_t (&pairs)[4]) {
  if constexpr (TRANSPOSED)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(pairs[0]),
                 "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
                 : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(pairs[0]),
                 "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
                 : "memory");
}

// The bias of a tile on its way through a warpgroup's registers to shared memory, where all threads need most of it:
// read a tile early, it costs no time.
template <int COLUMNS>
struct BiasFetch {
  uint16_t values[2];  // of columns thread and thread + 128

  __device__ void read(const GemmTask& task, int r0, int i, int j) {
    if (task.bias == nullptr) return;
    const uint16_t* bias = static_cast<const uint16_t*>(task.bias) + (static_cast<int64_t>(i) * task.b) * task.groups_j;
#pragma unroll
    for (int at = 0; at < 2; ++at) {
      const int column = threadIdx.x % 128 + 128 * at;
      const bool there = column < COLUMNS && r0 + column < task.b;
      values[at] = there ? __ldg(bias + static_cast<int64_t>(r0 + column) * task.groups_j + j) : uint16_t{0};
    }
  }
  // To shared memory, which a barrier makes known.
  __device__ void put(const GemmTask& task, uint16_t* shared) const {
    if (task.bias == nullptr) return;
#pragma unroll
    for (int at = 0; at < 2; ++at)
      if (threadIdx.x % 128 + 128 * at < COLUMNS) shared[threadIdx.x % 128 + 128 * at] = values[at];
  }
  __device__ void write(const GemmTask& task, uint16_t* shared, int barrier) const {
    if (task.bias == nullptr) return;
    put(task, shared);
    synchronize(barrier, 128);
  }
};

// Sums start from the bias, or from zero.
template <class T, int COLUMNS>
__device__ inline void start_sums(float (&sums)[COLUMNS / 2], const uint16_t* bias) {
#pragma unroll
  for (int at = 0; at < COLUMNS / 2; ++at) sums[at] = 0;
  if (bias != nullptr) {
#pragma unroll
    for (int at = 0; at < COLUMNS / 4; ++at) {
      const float value = to_float<T>(bias[8 * (at / 2) + threadIdx.x % 4 * 2 + at % 2]);
      sums[at / 2 * 4 + at % 2] = sums[at / 2 * 4 + 2 + at % 2] = value;
    }
  }
  fence_sums<COLUMNS>(sums);
}

// A warpgroup's way from its sums to Y: a ring of BUFFERS boxes of 64 n by 64 r, swizzled as the copy engine expects.
template <class T, bool ROWS_CONTIGUOUS, int BUFFERS>
struct Outlet {
  static_assert(BUFFERS >= 2, "the next box is written while the last one is read");
  unsigned char* shared;
  int barrier;  // of the warpgroup
  int next = 0;

  template <int COLUMNS>
  __device__ void put(const float (&sums)[COLUMNS / 2], const GemmTask& task, int n, int r0, int i, int j) {
#pragma unroll
    for (int first = 0; first < COLUMNS; first += 64) {
      unsigned char* box = shared + next * gemm_box;
      if (++next == BUFFERS) next = 0;
      const bool sender = threadIdx.x % 128 == 0;
      if (sender) wait_for_store_reads<BUFFERS - 1>();
      synchronize(barrier, 128);
      constexpr int widest = COLUMNS < 64 ? COLUMNS : 64;
#pragma unroll
      for (int column = 0; column < widest; column += 16)
        if (first + column < COLUMNS) put_columns(shared_address(box), column, &sums[(first + column) / 2]);
      fence_for_engines();
      synchronize(barrier, 128);
      if (sender) {
        store_box<ROWS_CONTIGUOUS>(task, box, n, r0 + first, i, j);
        commit_stores();
      }
    }
  }

  // Of 16 columns of the warp's 16 rows, where row lane % 8 of matrix lane / 8 goes in a box, in bytes.
  __host__ __device__ static int place_of(int column, unsigned thread) {
    const int lane = thread % 32, warp = thread / 32 % 4;
    const int row = lane % 8, half = lane / 8 % 2, quarter = lane / 16;
    if constexpr (ROWS_CONTIGUOUS) return (column + 8 * quarter + row) * 128 + ((2 * warp + half) ^ row) * 16;
    return (16 * warp + 8 * half + row) * 128 + ((column / 8 + quarter) ^ row) * 16;
  }

  __device__ static void put_columns(uint32_t box, int column, const float* sums) {
    const int place = place_of(column, threadIdx.x);
    uint32_t pairs[4];
#pragma unroll
    for (int at = 0; at < 4; ++at) pairs[at] = pack_pair<T>(sums[2 * at], sums[2 * at + 1]);
    store_matrices<ROWS_CONTIGUOUS>(box + place, pairs);
  }
};

}  // namespace ksmm::hopper
