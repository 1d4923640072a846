// Sums the parts of a gradient of weights, in the order of the batch, and brings them to ∂W.
#pragma once

#include "gradient_kernel.cuh"

namespace ksmm::hopper {

constexpr int gradient_sum_threads = 256;

// A thread has half a vector. SHARES of the parts are summed by threads of their own, where there are many parts.
template <class T, class Tile, int SHARES>
__global__ void __launch_bounds__(gradient_sum_threads) gradient_sum_kernel(const GradientTask task) {
  constexpr int halves = gradient_sum_threads / SHARES;  // of a block
  __shared__ float4 of_share[SHARES][halves];
  wait_for_kernels_before();
  const int share = threadIdx.x / halves, own = threadIdx.x % halves;
  const int64_t half = static_cast<int64_t>(blockIdx.x) * halves + own, vector = half / 2;
  const int64_t all = static_cast<int64_t>(gridDim.x) * halves;  // of a part
  const int thread = static_cast<int>(vector % Tile::consumers);
  const int number = static_cast<int>(vector / Tile::consumers % Tile::vectors);
  const GradientVector<Tile> of(GradientLane<Tile>(thread / 32, thread % 32), number);
  const int64_t place =
      gradient_place<Tile>(task, gradient_origin<Tile>(task, vector / Tile::consumers / Tile::vectors), of);
  float4 sum = {};
  const auto add = [&](const float4& of_part) {
    sum.x += of_part.x, sum.y += of_part.y, sum.z += of_part.z, sum.w += of_part.w;
  };
  if (place >= 0) {
    const float4* const from = reinterpret_cast<const float4*>(task.parts) + half;
#pragma unroll 8
    for (int part = share; part < task.parts_of_batch; part += SHARES) add(__ldcg(from + part * all));
  }
  if constexpr (SHARES > 1) {
    of_share[share][own] = sum;
    __syncthreads();
    if (share > 0) return;
#pragma unroll
    for (int other = 1; other < SHARES; ++other) add(of_share[other][own]);
  }
  if (place < 0) return;
  Vector<T, 4> numbers;
  numbers.bits[0] = to_bits<T>(sum.x), numbers.bits[1] = to_bits<T>(sum.y);
  numbers.bits[2] = to_bits<T>(sum.z), numbers.bits[3] = to_bits<T>(sum.w);
  store_global<T, 4>(task.gradient + place + half % 2 * 4, numbers);
}

}  // namespace ksmm::hopper
