// What a thread of the kernel for gradients of weights does with a stage: it pairs rows n, and multiplies.
#pragma once

#include "../bytes.cuh"
#include "../number.cuh"
#include "gradient_tile.cuh"

namespace ksmm::hopper {

// `groups[neighbour][pair][plane]`: the words of a slice that begins at `base`, of eight pairs of rows n.
// `read(address, words)` reads 16 bytes.
#pragma nv_exec_check_disable  // `read` is of the host, or of the device
template <class Tile, class Read>
__host__ __device__ inline void pair_rows(uint32_t (*groups)[2][Tile::planes], const GradientLane<Tile>& lane,
                                          uint32_t base, Read read) {
#pragma unroll
  for (int pair = 0; pair < 2; ++pair) {
    uint32_t first[4], second[4];
    read(base + lane.first + pair * 8 * Tile::row_bytes, first);
    read(base + lane.second + pair * 8 * Tile::row_bytes, second);
#pragma unroll
    for (int e = 0; e < 8; ++e)
      groups[e / Tile::planes][pair][e % Tile::planes] =
          permute_bytes(first[e / 2], second[e / 2], e % 2 == 0 ? lane.even : lane.odd);
  }
}

// A thread's parts of 16 x 8 products: of two groups of r and one of k, for each plane.
template <class Tile>
using GradientSums = float[Tile::y_groups / 2][Tile::x_groups][Tile::planes][4];

// Adds the products of 16 rows n, which begin at `stage`. `multiply` is multiply_add of matrix_unit.cuh.
#pragma nv_exec_check_disable
template <class Tile, class Read, class Multiply>
__host__ __device__ inline void multiply_rows(GradientSums<Tile>& sums, const GradientLane<Tile>& lane, uint32_t stage,
                                              Read read, Multiply multiply) {
  constexpr int slices = Tile::neighbours == 1 ? 2 : 1, groups = slices * Tile::neighbours;  // of ∂Y at a time
  uint32_t x[Tile::x_groups][2][Tile::planes];
#pragma unroll
  for (int slice = 0; slice < Tile::x_slices; ++slice)
    pair_rows<Tile>(x + slice * Tile::neighbours, lane, stage + lane.x_slice(slice), read);
#pragma unroll
  for (int at = 0; at < Tile::y_slices; at += slices) {
    uint32_t y[groups][2][Tile::planes];
#pragma unroll
    for (int slice = 0; slice < slices; ++slice)
      pair_rows<Tile>(y + slice * Tile::neighbours, lane, stage + lane.y_slice(at + slice), read);
#pragma unroll
    for (int group = 0; group < groups; group += 2)
#pragma unroll
      for (int plane = 0; plane < Tile::planes; ++plane) {
        const uint32_t rows[4] = {y[group][0][plane], y[group + 1][0][plane], y[group][1][plane],
                                  y[group + 1][1][plane]};
#pragma unroll
        for (int column = 0; column < Tile::x_groups; ++column)
          multiply(sums[(at * Tile::neighbours + group) / 2][column][plane], rows, x[column][0][plane],
                   x[column][1][plane]);
      }
  }
}

// A number of one of a thread's vectors of sums.
template <class Tile>
__host__ __device__ inline float sum_of(const GradientSums<Tile>& sums, const GradientVector<Tile>& vector, int e) {
  return sums[vector.group / 2][vector.slice * Tile::neighbours + e / Tile::planes][e % Tile::planes]
             [vector.group % 2 * 2 + vector.column];
}

template <class T>
__host__ __device__ inline void store_vector(uint16_t* to, const float (&values)[8]) {
  Vector<T, 8> vector;
#pragma unroll
  for (int e = 0; e < 8; ++e) vector.bits[e] = to_bits<T>(values[e]);
  store_global<T, 8>(to, vector);
}

}  // namespace ksmm::hopper
