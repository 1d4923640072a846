// Sums the parts of a gradient of weights, in the order of the batch, and brings them to ∂W.
#pragma once

#include "gradient_kernel.cuh"

namespace ksmm::hopper {

// Blocks of 32 halves of vectors; eight warps sum an eighth of the parts each.
struct GradientSum {
  static constexpr int halves = 32, warps = 8, threads = 32 * warps;
};

template <class T, class Tile>
__global__ void __launch_bounds__(GradientSum::threads) gradient_sum_kernel(const GradientTask task) {
  __shared__ float4 of_warp[GradientSum::warps][GradientSum::halves];
  wait_for_kernels_before();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t half = static_cast<int64_t>(blockIdx.x) * GradientSum::halves + lane;
  const int64_t halves = static_cast<int64_t>(gridDim.x) * GradientSum::halves;  // of a part
  const float4* from = reinterpret_cast<const float4*>(task.parts) + half;
  float4 sum = {};
#pragma unroll 4
  for (int part = warp; part < task.parts_of_batch; part += GradientSum::warps) {
    const float4 addend = __ldcg(from + part * halves);
    sum.x += addend.x, sum.y += addend.y, sum.z += addend.z, sum.w += addend.w;
  }
  of_warp[warp][lane] = sum;
  __syncthreads();
  if (threadIdx.x >= GradientSum::halves / 2) return;
  float values[8] = {};
  for (int other = 0; other < GradientSum::warps; ++other)
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float4& addend = of_warp[other][2 * threadIdx.x + e / 4];
      values[e] += e % 4 == 0 ? addend.x : e % 4 == 1 ? addend.y : e % 4 == 2 ? addend.z : addend.w;
    }
  const int64_t vector = static_cast<int64_t>(blockIdx.x) * (GradientSum::halves / 2) + threadIdx.x;
  const int thread = static_cast<int>(vector % 256), number = static_cast<int>(vector / 256 % Tile::vectors);
  const GradientLane<Tile> of_thread(thread / 32, thread % 32);
  const GradientOrigin origin = gradient_origin<Tile>(task, vector / 256 / Tile::vectors);
  const int64_t place = gradient_place<Tile>(task, origin, GradientVector<Tile>(of_thread, number));
  if (place >= 0) store_vector<T>(task.gradient + place, values);
}

}  // namespace ksmm::hopper
