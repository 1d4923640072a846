// The bias to finished sums, and those to Y; sums that are not finite are done again as plain float32 sums.
#pragma once

#include "tf32_fragments.cuh"
#include "tf32_task.h"
#include "warp_bias.cuh"

namespace ksmm::hopper {

struct Tf32Place {  // of a warpgroup's sums
  int i, r0, j0;
  int64_t n0;
};

// Splitting turns infinities into NaN, and the largest numbers into infinities: here they come out as IEEE has them.
template <class Tile>
__device__ __noinline__ float sum_again(const Tf32Task& task, int i, int r, int j, int64_t n) {
  const float* x = task.x_data + n * task.x_strides[0] + i * task.x_strides[1] + j * task.x_strides[3];
  const float* weight =
      task.weight_data + i * task.weight_strides[0] + r * task.weight_strides[1] + j * task.weight_strides[3];
  float sum = 0;
  for (int k = 0; k < task.c; ++k) sum = fmaf(x[k * task.x_strides[2]], weight[k], sum);
  return task.bias == nullptr ? sum : sum + task.bias[(static_cast<int64_t>(i) * task.b + r) * task.d + j];
}

// Whether one of them is an infinity or NaN.
template <int COUNT>
__device__ inline bool any_not_finite(const float (&values)[COUNT]) {
  float test = 0;
#pragma unroll
  for (int v = 0; v < COUNT; ++v) test = fmaf(values[v], 0.0f, test);
  return test != 0;  // NaN differs from everything
}

template <class Tile>
using Tf32WarpBias = WarpBias<Tile::rows, Tile::warpgroup_planes>;

// All lanes of the warp call it.
template <class Tile>
__device__ inline Tf32WarpBias<Tile> bias_of_warp(const Tf32Task& task, const Tf32Place& place, int lane) {
  const float* const bias = task.bias + static_cast<int64_t>(place.i) * task.b * task.d + place.j0;
  Tf32WarpBias<Tile> of_warp;
  of_warp.fetch(lane, [&](int column, int plane) {
    const int r = place.r0 + column;
    return r < task.b && place.j0 + plane < task.d ? __ldg(bias + r * task.d + plane) : 0;
  });
  return of_warp;
}

// What the halves of W were divided by; scales: of the warpgroup's first plane, by plane and r. All lanes of the warp
// call it.
template <class Tile>
__device__ inline Tf32WarpBias<Tile> scales_of_warp(const float* scales, int lane) {
  Tf32WarpBias<Tile> of_warp;
  of_warp.fetch(lane, [&](int column, int plane) {
    return column < Tile::rows ? __ldg(scales + plane * Tile::rows + column) : 0;
  });
  return of_warp;
}

// combine(sum, values of a warp for its r and plane ...) for each sum of the warpgroup. All lanes of the warp call it.
template <class Tile, class Combine, class... OfWarp>
__device__ inline void for_each_sum(float (&sums)[Tile::units][Tile::unit_sums], int lane, Combine combine,
                                    const OfWarp&... of_warp) {
  constexpr int planes = Tile::warpgroup_planes;
  const auto combine_all = [&](int q, int plane, auto... values) {
#pragma unroll
    for (int part = 0; part < 2 * Tile::blocks; ++part)  // rows g and g + 8 of each block
      combine(sums[part / 2 * planes + plane][q / 2 * 4 + part % 2 * 2 + q % 2], values...);
  };
#pragma unroll
  for (int q = 0; q < Tile::unit_sums / 2; ++q)
#pragma unroll
    for (int plane = 0; plane < planes; ++plane) combine_all(q, plane, of_warp.of(q, plane, lane)...);
}

// All lanes of the warp call it.
template <class Tile>
__device__ inline void add_bias(const Tf32Task& task, float (&sums)[Tile::units][Tile::unit_sums],
                                const Tf32Place& place, int lane) {
  if (task.bias == nullptr) return;
  const auto add = [](float& sum, float bias) { sum += bias; };
  for_each_sum<Tile>(sums, lane, add, bias_of_warp<Tile>(task, place, lane));
}

// Times what the halves of W were divided by, powers of two, plus the bias; both are on their way at once. All lanes of
// the warp call it.
template <class Tile>
__device__ inline void scale_back(const Tf32Task& task, float (&sums)[Tile::units][Tile::unit_sums],
                                  const Tf32Place& place, const float* scales, int lane) {
  const auto of_warp = scales_of_warp<Tile>(scales, lane);
  if (task.bias == nullptr) {
    for_each_sum<Tile>(sums, lane, [](float& sum, float scale) { sum *= scale; }, of_warp);
  } else {
    const auto add = [](float& sum, float scale, float bias) { sum = fmaf(sum, scale, bias); };
    for_each_sum<Tile>(sums, lane, add, of_warp, bias_of_warp<Tile>(task, place, lane));
  }
}

template <class Tile>
__device__ inline void store_batch_last(const Tf32Task& task, float (&sums)[Tile::units][Tile::unit_sums],
                                        const Tf32Place& place, int warp, int lane) {
  const int t = lane % 4;
  const int64_t n = place.n0 + warp * 32 + 4 * place_of_row<Tile>(lane / 4);
  if (n >= task.batch) return;
  const int r0 = place.r0 + 2 * t;
  const int64_t first_row = (static_cast<int64_t>(place.i) * task.b + r0) * task.d + place.j0;
  const int64_t stride = task.batch * task.d;
  float* y = task.y_data + first_row * task.batch + n;
#pragma unroll
  for (int q = 0; q < Tile::unit_sums; q += 4, y += 8 * stride) {  // rows g + 8 go with rows g
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int offset = q * 2 + e;
      if (r0 + offset >= task.b) return;
      float values[4] = {sums[0][q + e], sums[0][q + e + 2], sums[1][q + e], sums[1][q + e + 2]};
      if (any_not_finite(values))
        for (int v = 0; v < 4; ++v) values[v] = sum_again<Tile>(task, place.i, r0 + offset, place.j0, n + v);
      *reinterpret_cast<float4*>(y + e * stride) = make_float4(values[0], values[1], values[2], values[3]);
    }
  }
}

}  // namespace ksmm::hopper
