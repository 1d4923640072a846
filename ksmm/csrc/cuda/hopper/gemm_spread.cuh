// The gemm kernel for small products with d > 1 in batch_first and c a multiple of 8: the planes of an i as one matrix.
//
// With features k d + j of X and r d + j of Y, the product with W[i, r, k, j] is one with a matrix of b d by c d that
// is zero where the two j differ. X and Y are then read and written as rows, as for d = 1, and nothing is regrouped;
// the matrix units do d times the work, which takes less time than memory does while b d and c d are below about 340.
// The matrix is made in shared memory by the block that multiplies by it; in device memory W stays as it is.
#pragma once

#include "gemm_single.cuh"
#include "gemm_spread_weight.cuh"

namespace ksmm::hopper {

// Zero times infinity or NaN is NaN, also in sums of planes that have neither. Each NaN in the boxes is computed anew.
template <class T, class Tile>
__device__ void mend_boxes(const SpreadTask& task, const SinglePlace<Tile>& place, unsigned char* boxes) {
  constexpr int numbers = 64 * 64;  // of a box
#pragma unroll 1
  for (int at = threadIdx.x; at < Tile::boxes * numbers; at += Tile::threads) {
    const int box = at / numbers, line = at / 64 % 64, along = at % 64;
    const int n = place.n + Tile::n_of_box(box) + line, r = place.r + Tile::r_of_box(box) + along;
    const int byte = line * 128 + (along / 8 ^ line % 8) * 16 + along % 8 * 2;
    auto* const number = reinterpret_cast<uint16_t*>(boxes + box * gemm_box + byte);
    if (n >= task.rows || r >= task.b || r >= place.r + Tile::columns || !isnan(to_float<T>(*number))) continue;
    const float sum = sum_of_plane<T>(task, n, place.i, r);
    *number = static_cast<uint16_t>(pack_pair<T>(sum, sum));
  }
}

template <class T, class Tile, int D>
__global__ __launch_bounds__(Tile::threads) void spread_kernel(const __grid_constant__ SpreadTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char unaligned[];
  const SingleMemory<Tile> memory(task, unaligned);
  const SinglePlace<Tile> place(task, static_cast<int>(blockIdx.x));
  if (threadIdx.x == 32) prefetch_map(task.x), prefetch_map(task.y);
  begin_single(task, memory, Tile::blocks * gemm_box);
  BiasFetch<Tile::columns> fetch;
  fetch.read(task, place.r, place.i, place.j);
  if (threadIdx.x == 0)
    for (int step = 0; step < task.k_steps; ++step) fetch_x<Tile, false>(task, memory, place, step);
  __syncwarp();
  spread_weight<Tile, D, Tile::threads, 16, 1>(task, place.r, place.i, threadIdx.x, memory.weight);
  fetch.put(task, memory.shared->bias);
  fence_for_engines();
  __syncthreads();
  float sums[Tile::blocks][Tile::columns / 2];
  multiply_single<T, Tile, false>(task, memory, sums);
  bool any = false;
#pragma unroll
  for (int block = 0; block < Tile::blocks; ++block) any |= any_is_nan(sums[block]);
  const bool mend = __syncthreads_or(any);  // and all have read X
  put_single<T, Tile, false>(memory.x, sums);
  if (mend) {
    __syncthreads();
    mend_boxes<T>(task, place, memory.x);
  }
  store_single<Tile, false>(task, place, memory.x);
#endif
}

}  // namespace ksmm::hopper
