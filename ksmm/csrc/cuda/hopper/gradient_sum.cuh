// Sums the parts of a gradient of weights, in the order of the batch, and brings them to ∂W.
#pragma once

#include "gradient_kernel.cuh"

namespace ksmm::hopper {

constexpr int gradient_sum_threads = 256;

// WARPS of a block sum a share of the parts of the same vectors each: many of them where vectors are few.
template <class T, class Tile, int WARPS>
__global__ void __launch_bounds__(gradient_sum_threads) gradient_sum_kernel(const GradientTask task) {
  constexpr int vectors = gradient_sum_threads / WARPS;  // of a block
  __shared__ float4 of_share[WARPS][vectors][2];
  wait_for_kernels_before();
  const int share = threadIdx.x / vectors, own = threadIdx.x % vectors;
  const int64_t vector = static_cast<int64_t>(blockIdx.x) * vectors + own;
  const int64_t all = static_cast<int64_t>(gridDim.x) * vectors;  // of a part
  const int thread = static_cast<int>(vector % 256), number = static_cast<int>(vector / 256 % Tile::vectors);
  const GradientVector<Tile> of(GradientLane<Tile>(thread / 32, thread % 32), number);
  const int64_t place = gradient_place<Tile>(task, gradient_origin<Tile>(task, vector / 256 / Tile::vectors), of);
  float values[8] = {};
  const auto add = [&](const float4& low, const float4& high) {
    values[0] += low.x, values[1] += low.y, values[2] += low.z, values[3] += low.w;
    values[4] += high.x, values[5] += high.y, values[6] += high.z, values[7] += high.w;
  };
  if (place >= 0) {
    const float4* const from = reinterpret_cast<const float4*>(task.parts) + vector * 2;
#pragma unroll 4
    for (int part = share; part < task.parts_of_batch; part += WARPS)
      add(__ldcg(from + part * all * 2), __ldcg(from + part * all * 2 + 1));
  }
  if constexpr (WARPS > 1) {
    of_share[share][own][0] = make_float4(values[0], values[1], values[2], values[3]);
    of_share[share][own][1] = make_float4(values[4], values[5], values[6], values[7]);
    __syncthreads();
    if (share > 0) return;
#pragma unroll
    for (int other = 1; other < WARPS; ++other) add(of_share[other][own][0], of_share[other][own][1]);
  }
  if (place >= 0) store_vector<T>(task.gradient + place, values);
}

}  // namespace ksmm::hopper
