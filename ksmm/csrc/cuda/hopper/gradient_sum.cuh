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
  const int64_t halves = static_cast<int64_t>(gridDim.x) * GradientSum::halves;  // of a part
  const int64_t half = static_cast<int64_t>(blockIdx.x) * GradientSum::halves + lane, vector = half / 2;
  const int thread = static_cast<int>(vector % 256), number = static_cast<int>(vector / 256 % Tile::vectors);
  const GradientVector<Tile> own(GradientLane<Tile>(thread / 32, thread % 32), number);
  const int64_t place = gradient_place<Tile>(task, gradient_origin<Tile>(task, vector / 256 / Tile::vectors), own);
  float4 sum = {};
  if (place >= 0) {
    const float4* from = reinterpret_cast<const float4*>(task.parts) + half;
#pragma unroll 4
    for (int part = warp; part < task.parts_of_batch; part += GradientSum::warps) {
      const float4 addend = __ldcg(from + part * halves);
      sum.x += addend.x, sum.y += addend.y, sum.z += addend.z, sum.w += addend.w;
    }
  }
  of_warp[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || lane % 2 != 0 || place < 0) return;
  float values[8] = {};
#pragma unroll
  for (int other = 0; other < GradientSum::warps; ++other)
#pragma unroll
    for (int e = 0; e < 8; e += 4) {
      const float4 addend = of_warp[other][lane + e / 4];
      values[e] += addend.x, values[e + 1] += addend.y, values[e + 2] += addend.z, values[e + 3] += addend.w;
    }
  store_vector<T>(task.gradient + place, values);
}

}  // namespace ksmm::hopper
