// Finished sums to Y, with the bias; sums that are not finite are done again as plain float32 sums.
#pragma once

#include "tf32_fragments.cuh"
#include "tf32_task.h"

namespace ksmm::hopper {

struct Tf32Place {  // of a warpgroup's sums
  int i, r0, j0;
  int64_t n0;
};

// Splitting turns infinities into NaN, and the largest numbers into infinities: here they come out as IEEE has them.
template <class Tile>
__device__ __noinline__ float sum_again(const Tf32Task& task, int i, int r, int j, int64_t n) {
  const float* x = task.x_data + n * task.x_strides[0] + i * task.x_strides[1] + j * task.x_strides[3];
  const float* weight = task.weight_data + i * task.weight_strides[0] + r * task.weight_strides[1] +
                        j * task.weight_strides[3];
  float sum = 0;
  for (int k = 0; k < task.c; ++k) sum = fmaf(x[k * task.x_strides[2]], weight[k], sum);
  return sum;
}

// Of `count` neighbours in Y, from (i, r, j, n) on; along n if last, else along (r, j) with r advancing every PLANES.
template <class Tile, int COUNT>
__device__ inline void finish(const Tf32Task& task, float (&values)[COUNT], int i, int r, int j, int64_t n) {
  constexpr bool last = Tile::access == Access::rows;
  float test = 0;
#pragma unroll
  for (int v = 0; v < COUNT; ++v) test = fmaf(values[v], 0.0f, test);
  const bool again = test != 0;  // NaN differs from everything
#pragma unroll
  for (int v = 0; v < COUNT; ++v) {
    const int row = last ? r : r + v / Tile::planes, plane = last ? j : j + v % Tile::planes;
    const int64_t column = last ? n + v : n;
    const bool inside = row < task.b && plane < task.d && column < task.batch;
    if (again && inside) values[v] = sum_again<Tile>(task, i, row, plane, column);
    if (task.bias != nullptr && inside)
      values[v] += task.bias[(static_cast<int64_t>(i) * task.b + row) * task.d + plane];
  }
}

template <class Tile>
__device__ inline void store_batch_last(const Tf32Task& task, float (&sums)[Tile::units][Tile::unit_sums],
                                        const Tf32Place& place, int warp, int lane) {
  const int g = lane / 4, t = lane % 4;
  const int64_t n = place.n0 + warp * 32 + 4 * place_of_row<Tile>(g);
  if (n >= task.batch) return;
#pragma unroll
  for (int q = 0; q < Tile::unit_sums; ++q) {
    if (q % 4 >= 2) continue;  // rows g + 8 go with rows g
    const int r = place.r0 + q / 4 * 8 + 2 * t + q % 4;
    if (r >= task.b) continue;
    float values[4] = {sums[0][q], sums[0][q + 2], sums[1][q], sums[1][q + 2]};
    finish<Tile>(task, values, place.i, r, place.j0, n);
    const int64_t row = (static_cast<int64_t>(place.i) * task.b + r) * task.d + place.j0;
    *reinterpret_cast<float4*>(task.y + row * task.batch + n) =
        make_float4(values[0], values[1], values[2], values[3]);
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

template <class Tile>
__device__ inline void store_batch_first(const Tf32Task& task, float (&sums)[Tile::units][Tile::unit_sums],
                                         const Tf32Place& place, int warp, int lane) {
  constexpr bool runs = Tile::access == Access::runs;
  constexpr int planes = Tile::planes, rows = runs ? 2 : 1;  // in runs, two r are neighbours, too
  constexpr int count = planes * rows, piece = count % 4 == 0 ? 4 : 2;
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int block = 0; block < Tile::blocks; ++block) {
#pragma unroll
    for (int q = 0; q < Tile::unit_sums; q += rows) {
      const int64_t n = place.n0 + block * 64 + warp * 16 + place_of_row<Tile>(g) + q % 4 / 2 * 8;
      const int r = place.r0 + q / 4 * 8 + 2 * t + q % 2;
      if (n >= task.batch || r >= task.b) continue;
      float values[count];
#pragma unroll
      for (int v = 0; v < count; ++v) values[v] = sums[block * planes + v % planes][q + v / planes];
      finish<Tile>(task, values, place.i, r, place.j0, n);
      const int64_t feature = (static_cast<int64_t>(place.i) * task.b + r) * task.d + place.j0;
      float* const y = task.y + n * (static_cast<int64_t>(task.a) * task.b * task.d) + feature;
      const int limit = runs ? (task.b - r) * planes : task.d - place.j0;
      if (!runs || task.whole_vectors)
        store_pieces<piece>(y, values, limit);
      else
        store_pieces<1>(y, values, limit);
    }
  }
}

}  // namespace ksmm::hopper
