// Tiles of badly scaled weights: multiplied as strict float32 has them.
//
// Where one product dominates each sum, strict float32 rounds once or twice, and the matrix units, which truncate, err
// up to 1.3 times as much (docs/float32.md, "Badly scaled"). That takes rows of both X and W whose numbers are many
// powers of ten apart; W is watched, which is split anyway, each tile of it when a block comes to it.
#pragma once

#include "tf32_fragments.cuh"
#include "tf32_task.h"

namespace ksmm::hopper {

// Where the last of three parts would lose what float32 has: sums of such weights are as exact as strict's no more.
constexpr float smallest_split = 0x1p-108f;

// Whether at least half of 8 neighbours in a row of W are, but for zeros, below a 2^-20th of the largest of them, or
// that one is too small to be split. In pairs, then pairs of pairs: who waits for W waits for this.
__device__ inline bool is_spread(const float (&values)[8]) {
  float largest[8];
#pragma unroll
  for (int n = 0; n < 8; ++n) largest[n] = fabsf(values[n]);
#pragma unroll
  for (int half = 4; half > 0; half /= 2)
#pragma unroll
    for (int n = 0; n < half; ++n) largest[n] = fmaxf(largest[n], largest[n + half]);
  const float small = largest[0] * 0x1p-20f;
  int count[8];
#pragma unroll
  for (int n = 0; n < 8; ++n) count[n] = fabsf(values[n]) < small && values[n] != 0;
#pragma unroll
  for (int half = 4; half > 0; half /= 2)
#pragma unroll
    for (int n = 0; n < half; ++n) count[n] += count[n + half];
  return count[0] >= 4 || (largest[0] < smallest_split && largest[0] != 0);
}

// What a thread that splits W finds in its share of a tile: 8 numbers of some rows, the same ones of each stage. How
// often they are spread, a byte for each row, since those threads have few registers.
template <class Tile>
struct SpreadOfWeight {
  static constexpr int most_stages = 127;
  static_assert(Tile::splitter_threads % (Tile::k / 8) == 0, "the chunks of a thread have the same place in each row");
  static_assert(Tile::weight_bytes / 32 <= 8 * Tile::splitter_threads, "eight bytes");
  uint64_t counts = 0;

  // The first, second, ... chunk of a stage.
  __device__ void look_at(const float4& low, const float4& high, int stage, int index) {
    const bool found = is_spread({low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w});
    if (found && stage < most_stages) counts += 1ull << 8 * index;
  }
  // Whether in half of the stages that were looked at of a row, or more. All lanes of the warp call it.
  __device__ bool of_warp(int stages) const {
    const int half = (min(stages, most_stages) + 1) / 2;
    const uint64_t each_byte = 0x0101010101010101;  // whose highest bit gets set where it is half or more
    return __any_sync(~0u, (counts + (128 - half) * each_byte & 128 * each_byte) != 0);
  }
};

// Which tiles of W of an i a warp has looked at, as far as they are among its first 32, and found badly scaled.
struct WatchedWeight {
  int i = -1;
  uint32_t known, found;  // since knows() was asked of that i

  __device__ bool knows(int of_i, int tile) {
    if (of_i != i) i = of_i, known = found = 0;
    return tile < 32 && (known >> tile & 1) != 0;
  }
  __device__ bool has(int tile) const { return (found >> tile & 1) != 0; }
  __device__ void remember(int tile, bool is_found) {
    if (tile >= 32) return;
    known |= 1u << tile, found |= static_cast<uint32_t>(is_found) << tile;
  }
};

// As many k as VECTOR holds of eight n by four r, in the order of k.
template <class Vector>
__device__ inline void add_products(float (&sums)[8][4], const float* const (&x)[8], int64_t along_k,
                                    const float* const (&weight)[4], int k) {
  constexpr int count = sizeof(Vector) / sizeof(float);
  Vector of_rows[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) of_rows[r] = __ldg(reinterpret_cast<const Vector*>(weight[r] + k));
  float values[count][8];
#pragma unroll
  for (int n = 0; n < count; ++n)
#pragma unroll
    for (int m = 0; m < 8; ++m) values[n][m] = __ldg(x[m] + (k + n) * along_k);
#pragma unroll
  for (int n = 0; n < count; ++n)
#pragma unroll
    for (int m = 0; m < 8; ++m)
#pragma unroll
      for (int r = 0; r < 4; ++r)
        sums[m][r] = fmaf(values[n][m], reinterpret_cast<const float*>(&of_rows[r])[n], sums[m][r]);
}

// Eight n, along_n apart, by four r of a j; what is outside of the tile is read somewhere inside, and not written.
template <class Tile>
__device__ inline void multiply_piece(const Tf32Task& task, int i, int j, int r0, int past_r, int64_t n0,
                                      int64_t past_n, int along_n) {
  const float* x[8];
  const float* weight[4];
  float sums[8][4] = {};  // of n, r
#pragma unroll
  for (int m = 0; m < 8; ++m)
    x[m] = task.x_data + min(n0 + m * along_n, past_n - 1) * task.x_strides[0] + i * task.x_strides[1] +
           j * task.x_strides[3];
#pragma unroll
  for (int r = 0; r < 4; ++r)
    weight[r] = task.weight_data + i * task.weight_strides[0] + min(r0 + r, past_r - 1) * task.weight_strides[1] +
                j * task.weight_strides[3];
  int k = 0;
#pragma unroll 1
  for (; k + 4 <= task.c; k += 4) add_products<float4>(sums, x, task.x_strides[2], weight, k);
#pragma unroll 1
  for (; k < task.c; ++k) add_products<float>(sums, x, task.x_strides[2], weight, k);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    if (r0 + r >= past_r) break;
    const int64_t feature = (static_cast<int64_t>(i) * task.b + r0 + r) * task.d + j;
    const float bias = task.bias == nullptr ? -0.0f : __ldg(task.bias + feature);  // -0 changes no sum
#pragma unroll
    for (int m = 0; m < 8; ++m) {
      const int64_t n = n0 + m * along_n, features = static_cast<int64_t>(task.a) * task.b * task.d;
      if (n >= past_n) break;
      task.y_data[Tile::in_batch_last ? feature * task.batch + n : n * features + feature] = sums[m][r] + bias;
    }
  }
}

// A tile of Y by float32 multiply-adds in the order of k, as the strict kernel; all of those threads that multiply call
// it, once nobody needs what they have in registers. More r a thread would take registers from what goes before.
template <class Tile>
__device__ __noinline__ void multiply_again(const Tf32Task& task, int i, int r_tile, int j_tile, int64_t n_tile,
                                            int thread) {
  // lanes along j, n and r, so that they share most of what they read
  constexpr int groups = Tile::in_batch_last ? 32 : Tile::planes % 3 == 0 ? 5 : 4;
  constexpr int row_groups = 32 / Tile::planes / groups, strip = 8 * groups, strip_rows = 4 * row_groups;
  constexpr int strips = (Tile::batch + strip - 1) / strip, columns = (Tile::rows + strip_rows - 1) / strip_rows;
  const int lane = thread % 32, j = j_tile + lane % Tile::planes;
  const int group = lane / Tile::planes % groups, row_group = lane / Tile::planes / groups;
  if (row_group >= row_groups || j >= task.d) return;
  const int64_t past_n = min(n_tile + Tile::batch, task.batch);
  const int past_r = min(r_tile + Tile::rows, task.b);
  for (int piece = thread / 32; piece < strips * columns; piece += consumer_threads / 32) {
    const int64_t n0 = n_tile + piece / columns * strip + group;
    const int r0 = r_tile + piece % columns * strip_rows + row_group * 4;
    if (n0 < past_n && r0 < past_r) multiply_piece<Tile>(task, i, j, r0, past_r, n0, past_n, groups);
  }
}

}  // namespace ksmm::hopper
