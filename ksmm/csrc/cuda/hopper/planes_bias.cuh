// What the sums of a tile of the planes kernel start from.
#pragma once

#include "../number.cuh"
#include "planes_store.cuh"

namespace ksmm::hopper {

// The bias of a thread's columns r and planes, which are contiguous as in Y: in vectors of so many, all of them inside
// of Y or none, or one by one. Each thread reads its own: to read them once for a warp and shuffle them to those that
// need them takes more instructions than there are vectors, on the way that reads of shared memory take.
template <class T, class Tile, int VECTOR>
__host__ __device__ inline void read_bias(float (&sums)[Tile::planes][Tile::r / 2], const PlanesTask& task,
                                          const PlanesOrigin& origin, int warpgroup, int lane) {
  constexpr int P = Tile::planes, columns = Tile::run / P;  // that are contiguous
  const int first = origin.j + (Tile::split ? warpgroup * P : 0), left_j = task.d - first;
  const uint16_t* bias = task.bias + static_cast<int64_t>(origin.i) * task.b * task.d + first;
#pragma unroll
  for (int s = 0; s < Tile::r / 2; s += 4)  // sums of row g and two columns, then of row g + 8
#pragma unroll
    for (int pair = 0; pair < 2; pair += columns) {
      const int r = origin.r + 2 * s + lane % 4 * 2 + pair, left_r = task.b - r;
      const int64_t place = static_cast<int64_t>(r) * task.d;
#pragma unroll
      for (int at = 0; at < Tile::run; at += VECTOR) {
        Vector<T, VECTOR> values = {};
        if (at / P < left_r && at % P < left_j) values = load_vector<T, VECTOR>(bias + place + at);
#pragma unroll
        for (int e = at; e < at + VECTOR; ++e)
          sums[e % P][s + pair + e / P] = sums[e % P][s + pair + e / P + 2] = to_float<T>(values.bits[e - at]);
      }
    }
}

// Sums start from the bias, where there is one; else the first product of each makes them.
template <class T, class Tile>
__device__ inline void start_planes(float (&sums)[Tile::planes][Tile::r / 2], const PlanesTask& task,
                                    const PlanesOrigin& origin, int warpgroup, int lane) {
  if (task.bias == nullptr) return;
  if (task.bias_by_vectors)
    read_bias<T, Tile, Tile::vector>(sums, task, origin, warpgroup, lane);
  else
    read_bias<T, Tile, 1>(sums, task, origin, warpgroup, lane);
#pragma unroll
  for (int plane = 0; plane < Tile::planes; ++plane)
#pragma unroll
    for (int s = 0; s < Tile::r / 2; ++s) fence_register(sums[plane][s]);
}

}  // namespace ksmm::hopper
