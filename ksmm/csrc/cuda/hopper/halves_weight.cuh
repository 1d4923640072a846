// W as halves (see halves_consumer.cuh), for each product, or once for a weight that is kept: as the stages of a tile
// read it, one after another.
#pragma once

#include "halves_consumer.cuh"
#include "overlap.cuh"
#include "tf32_task.h"

namespace ksmm::hopper {

struct HalvesTask {
  const float* weight;
  int64_t strides[4];  // of i, r, k, j; that of k is 1, and rows are multiples of 16 bytes
  int b, c, d, row_tiles, plane_tiles;
  char* stages;
  float* scales;
  uint8_t* uneven;  // one of each of the tile's blocks
  int* handed_out;  // to be zero, or null
};

constexpr int halves_threads = 512;
// Of a tile of W: there are few tiles, and a warp waits for memory at each of its rows.
constexpr int halves_blocks = 8;
static_assert(halves_blocks == sizeof(*HalvesOfWeight::uneven));

// 8 numbers of a row from k on, zeros from c on.
__device__ inline void read_row(const float* row, int k, int c, float (&to)[8]) {
#pragma unroll
  for (int half = 0; half < 8; half += 4) {
    if (k + half + 4 <= c) {
      const float4 read = __ldg(reinterpret_cast<const float4*>(row + k + half));
      to[half] = read.x, to[half + 1] = read.y, to[half + 2] = read.z, to[half + 3] = read.w;
    } else {
#pragma unroll
      for (int n = half; n < half + 4; ++n) to[n] = k + n < c ? __ldg(row + k + n) : 0;
    }
  }
}

// An even row of W has no more than two numbers below a 2^-24th of its largest, and is not made up by a few, or it is
// all zeros. What is lost beside the largest of X is then small beside the products of the others, since those of X
// where W is not next to zero add up to twice the largest at least. Infinities and NaN are uneven.
struct Evenness {
  float largest, total = 0;
  int small = 0;

  __device__ void look_at(float value) { total += fabsf(value), small += !(fabsf(value) >= largest * 0x1p-24f); }
  __device__ bool of_warp(int c) {
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      total += __shfl_xor_sync(~0u, total, lanes), small += __shfl_xor_sync(~0u, small, lanes);
    }
    return largest == 0 || (total < INFINITY && total >= fewest_numbers(c) * largest && small <= 2);
  }
};

__device__ inline float largest_of_warp(float value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value = fmaxf(value, __shfl_xor_sync(~0u, value, lanes));
  return value;
}

// The warps of its blocks take rows of a tile of W in turns.
template <class Tile>
__global__ void __launch_bounds__(halves_threads) prepare_halves(const HalvesTask task) {
  wait_for_kernels_before();
  const int tile = blockIdx.x / halves_blocks, block = blockIdx.x % halves_blocks, lane = threadIdx.x % 32;
  const int row_tile = tile % task.row_tiles, plane_tile = tile / task.row_tiles % task.plane_tiles;
  const int i = tile / task.row_tiles / task.plane_tiles, steps = (task.c + Tile::k - 1) / Tile::k;
  char* const stages = task.stages + static_cast<int64_t>(tile) * steps * Tile::weight_bytes;
  bool is_even = true;
  constexpr int warps = halves_threads / 32;
  for (int at = block * warps + threadIdx.x / 32; at < Tile::planes * Tile::rows; at += halves_blocks * warps) {
    const int j = plane_tile * Tile::planes + at / Tile::rows, r = row_tile * Tile::rows + at % Tile::rows;
    const int c = j < task.d && r < task.b ? task.c : 0;
    const float* const row = task.weight + i * task.strides[0] + r * task.strides[1] + j * task.strides[3];
    float values[8], largest = 0;
    for (int k = 8 * lane; k < c; k += 256) {
      read_row(row, k, c, values);
#pragma unroll
      for (int n = 0; n < 8; ++n) largest = fmaxf(largest, fabsf(values[n]));
    }
    Evenness evenness = {largest_of_warp(largest)};
    const float scale = scale_for(evenness.largest);
    if (lane == 0) task.scales[static_cast<int64_t>(tile) * Tile::planes * Tile::rows + at] = inverse_of_scale(scale);
    for (int k = 8 * lane; k < steps * Tile::k; k += 256) {
      read_row(row, k, c, values);
#pragma unroll
      for (int n = 0; n < 8; ++n)
        if (k + n < c) evenness.look_at(values[n]);
      uint4 first, second;  // k and k + 4 are neighbours, as in the registers that hold X
      split_halves(values[0], values[4], scale, first.x, second.x);
      split_halves(values[1], values[5], scale, first.y, second.y);
      split_halves(values[2], values[6], scale, first.z, second.z);
      split_halves(values[3], values[7], scale, first.w, second.w);
      char* const to = stages + static_cast<int64_t>(k / Tile::k) * Tile::weight_bytes +
                       swizzled<Tile::row_bytes>(at * Tile::row_bytes + k % Tile::k * 2);
      *reinterpret_cast<uint4*>(to) = first;
      *reinterpret_cast<uint4*>(to + Tile::part_bytes) = second;
    }
    is_even &= evenness.of_warp(task.c);
  }
  const bool uneven = __syncthreads_or(!is_even);
  if (threadIdx.x == 0) task.uneven[blockIdx.x] = uneven;
  if constexpr (Tile::in_turn)
    if (threadIdx.x == 0 && blockIdx.x == 0) *task.handed_out = 0;
}

}  // namespace ksmm::hopper
