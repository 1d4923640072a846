// The bias to finished sums, and those to Y; sums that are not finite are done again as plain float32 sums.
#pragma once

#include "copy.cuh"
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

// All lanes of the warp call it.
template <class Tile>
__device__ inline void add_bias(const Tf32Task& task, float (&sums)[Tile::units][Tile::unit_sums],
                                const Tf32Place& place, int lane) {
  constexpr int planes = Tile::planes;
  const float* const bias = task.bias + static_cast<int64_t>(place.i) * task.b * task.d + place.j0;
  WarpBias<Tile::warpgroup_rows, planes> of_warp;
  of_warp.fetch(lane, [&](int column, int plane) {
    const int r = place.r0 + column;
    return r < task.b && place.j0 + plane < task.d ? __ldg(bias + r * task.d + plane) : 0;
  });
#pragma unroll
  for (int q = 0; q < Tile::unit_sums / 2; ++q)
#pragma unroll
    for (int plane = 0; plane < planes; ++plane) {
      const float value = of_warp.of(q, plane, lane);
#pragma unroll
      for (int part = 0; part < 2 * Tile::blocks; ++part)  // rows g and g + 8 of each block
        sums[part / 2 * planes + plane][q / 2 * 4 + part % 2 * 2 + q % 2] += value;
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

// Writes COUNT neighbours in pieces of V floats, those before `limit`.
template <int V, int COUNT>
__device__ inline void store_pieces(float* y, const float (&values)[COUNT], int limit) {
#pragma unroll
  for (int v = 0; v < COUNT; v += V) {
    if (v >= limit) continue;
    if constexpr (V == 4)
      *reinterpret_cast<float4*>(y + v) = make_float4(values[v], values[v + 1], values[v + 2], values[v + 3]);
    else if constexpr (V == 2)
      *reinterpret_cast<float2*>(y + v) = make_float2(values[v], values[v + 1]);
    else
      y[v] = values[v];
  }
}

// Writes 32 neighbouring bytes of this lane and of the lane beside it, both lanes 16 bytes of each: a store that fills
// whole sectors takes half the time. All lanes of the warp call it; `inside` says whether a lane's own are to be
// written.
__device__ inline void store_sectors(float* y, const float* values, bool inside, int lane) {
  const bool odd = lane % 2;
  float theirs[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) theirs[v] = __shfl_xor_sync(~0u, odd ? values[v] : values[4 + v], 1);
  const auto address = reinterpret_cast<unsigned long long>(inside ? y : nullptr);
  auto* const beside = reinterpret_cast<float*>(__shfl_xor_sync(~0u, address, 1));
  float* const own = inside ? y : nullptr;
  float* const even_y = odd ? beside : own;
  float* const odd_y = odd ? own : beside;
  const float4 mine = odd ? make_float4(values[4], values[5], values[6], values[7])
                          : make_float4(values[0], values[1], values[2], values[3]);
  const float4 other = make_float4(theirs[0], theirs[1], theirs[2], theirs[3]);
  if (even_y != nullptr) *reinterpret_cast<float4*>(even_y + 4 * odd) = odd ? other : mine;
  if (odd_y != nullptr) *reinterpret_cast<float4*>(odd_y + 4 * odd) = odd ? mine : other;
}

template <class Tile>
__device__ inline void store_batch_first(const Tf32Task& task, float (&sums)[Tile::units][Tile::unit_sums],
                                         const Tf32Place& place, int warp, int lane) {
  constexpr bool runs = Tile::access == Access::runs;
  constexpr int planes = Tile::planes, rows = runs ? 2 : 1;  // in runs, two r are neighbours, too
  constexpr int count = planes * rows, piece = count % 4 == 0 ? 4 : 2;
  const int r0 = place.r0 + 2 * (lane % 4);
  const int64_t first_feature = (static_cast<int64_t>(place.i) * task.b + r0) * task.d + place.j0;
  const int64_t features = static_cast<int64_t>(task.a) * task.b * task.d;
#pragma unroll
  for (int part = 0; part < 2 * Tile::blocks; ++part) {  // rows g and g + 8 of each block
    const int64_t n = place.n0 + part / 2 * 64 + part % 2 * 8 + warp * 16 + place_of_row<Tile>(lane / 4);
    float* const y = task.y_data + n * features + first_feature;
#pragma unroll
    for (int q = 0; q < Tile::unit_sums / 2; q += rows) {
      const int offset = q / 2 * 8 + q % 2;
      const bool inside = n < task.batch && r0 + offset < task.b;
      const int limit = !inside ? 0 : runs ? (task.b - r0 - offset) * planes : task.d - place.j0;
      float values[count];
#pragma unroll
      for (int v = 0; v < count; ++v)
        values[v] = sums[part / 2 * planes + v % planes][q / 2 * 4 + part % 2 * 2 + q % 2 + v / planes];
      if (any_not_finite(values))
#pragma unroll
        for (int v = 0; v < count; ++v)
          if (v < limit) values[v] = sum_again<Tile>(task, place.i, r0 + offset + v / planes, place.j0 + v % planes, n);
      float* const to = y + offset * task.d;
      if (count % 8 == 0 && task.whole_sectors) {  // the same for all lanes
        __syncwarp();
#pragma unroll
        for (int v = 0; v < count; v += 8) store_sectors(to + v, values + v, v < limit, lane);
      } else if (task.whole_vectors) {
        store_pieces<piece>(to, values, limit);
      } else {
        store_pieces<1>(to, values, limit);
      }
    }
  }
}

// Y of a warp's 16 rows n, 8 of them by 8 columns r at a time, through places in shared memory that are the warp's own:
// `place_of_warp` and every eighth one after it. A store of the copy engine writes sectors far from each other, and
// nothing outside of Y; it may still read from there when this returns.
template <class Tile>
__device__ inline void store_staged(const Tf32Task& task, const float (&sums)[Tile::units][Tile::unit_sums],
                                    const Tf32Place& at, char* place_of_warp, int warp, int lane) {
  constexpr int places = Tile::places_of_warp;
  const int g = lane / 4, t = lane % 4, odd = g % 2, swizzle = (t & 2) << 3;
#pragma unroll
  for (int turn = 0; turn < Tile::warpgroup_rows / 4; ++turn) {
    const int q = turn / 2, half = turn % 2, r = at.r0 + 8 * q;
    const int64_t n = at.n0 + warp * 16 + half * 8;
    if (r >= task.b) break;
    if (turn >= places && lane == 0) wait_for_store_reads<places - 1>();
    __syncwarp();
    char* const place = place_of_warp + turn % places * (8 * place_bytes);
#pragma unroll
    for (int e = 0; e < 2; ++e) {  // even and odd g begin with different columns, which lie in different banks
      const int column = 2 * t + (e ^ odd);
      float values[8];
#pragma unroll
      for (int j = 0; j < 8; ++j)  // registers have no index
        values[j] = odd ? sums[j][q * 4 + half * 2 + 1 - e] : sums[j][q * 4 + half * 2 + e];
      char* const to = place + g * 256 + column * 32;
      *reinterpret_cast<float4*>(to + swizzle) = make_float4(values[0], values[1], values[2], values[3]);
      *reinterpret_cast<float4*>(to + (swizzle ^ 16)) = make_float4(values[4], values[5], values[6], values[7]);
      if (any_not_finite(values) && r + column < task.b && n + g < task.batch)
        for (int j = 0; j < 8 && at.j0 + j < task.d; ++j)
          reinterpret_cast<float*>(to + (swizzle ^ (j & 4) << 2))[j % 4] =
              sum_again<Tile>(task, at.i, r + column, at.j0 + j, n + g);
    }
    fence_for_engines();
    __syncwarp();
    if (lane == 0) {
      store(task.y, place, at.j0, r, at.i, static_cast<int>(n));
      commit_stores();
    }
  }
}

}  // namespace ksmm::hopper
