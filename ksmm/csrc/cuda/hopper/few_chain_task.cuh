// What a block of the kernel for chains of a handful of rows is told, which tiles are its own, and how their weights
// are read.
#pragma once

#include "../matrix_unit.cuh"
#include "barrier.cuh"

namespace ksmm::hopper {

constexpr int few_chain_warps = 16, few_chain_threads = 32 * few_chain_warps;
constexpr int few_chain_tile = 16;  // r
constexpr int few_chain_step = 32;  // k of the four threads that share a row
constexpr int few_chain_ahead = 4;  // steps whose weights are read before the first is multiplied

struct FewChainFactor {
  const uint16_t* weight;
  int64_t group_stride, row_stride;  // elements from one i (inner) or j (outer) to the next, and from one r to the next
  int b, c;
  int row_tiles;    // of an i or j
  int tiles;        // of a block, at most: row tiles of all its i or j
  int parts, part;  // of c that warps share: how many, and how long, a multiple of few_chain_step
};

struct FewChainTask {
  const uint16_t* x;
  int64_t x_stride;
  FewChainFactor inner, outer;
  const uint16_t* bias;  // or null
  uint16_t* y;
  int batch, groups_i, planes;  // a' and d
  int cluster;                  // blocks of a cluster, of which each has planes / cluster planes
  int clusters;                 // that share the rows of the outer factor
  int pitch;                    // k of a plane of what is between the factors
};

// The eight k from `k` on of a row of W or X, zeros beyond `end`.
__device__ inline uint4 read_eight(const uint16_t* row, int k, int end) {
  return row != nullptr && k < end ? __ldg(reinterpret_cast<const uint4*>(row + k)) : uint4{0, 0, 0, 0};
}

// A tile of W on its way to the matrix unit: rows lane / 4 and lane / 4 + 8, eight k of each step.
struct FewChainWeights {
  const uint16_t* rows[2];  // null beyond b
  int k, end;               // of the part
  uint4 words[2][few_chain_ahead];

  // The tile `row_tile` of group i or j, part `part` of k; reads the first steps.
  __device__ FewChainWeights(const FewChainFactor& factor, int group, int row_tile, int part) {
    const int lane = threadIdx.x % 32, r = row_tile * few_chain_tile + lane / 4;
    const uint16_t* weight = factor.weight + group * factor.group_stride;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      rows[half] = r + 8 * half < factor.b ? weight + (r + 8 * half) * factor.row_stride : nullptr;
    k = part * factor.part, end = min(factor.c, k + factor.part);
    read();
  }
  __device__ void read() {
    const int own = k + threadIdx.x % 4 * 8;
#pragma unroll
    for (int step = 0; step < few_chain_ahead; ++step)
#pragma unroll
      for (int half = 0; half < 2; ++half) words[half][step] = read_eight(rows[half], own + step * few_chain_step, end);
  }
};

// Brings rows of W into L2, where a kernel before this one may still write them.
__device__ inline void prefetch_tile(const FewChainFactor& factor, int group, int row_tile) {
  constexpr int line = 64;  // elements
  const int lines = (factor.c + line - 1) / line, r0 = row_tile * few_chain_tile;
  const int rows = min(few_chain_tile, factor.b - r0), lane = threadIdx.x % 32;
  const uint16_t* weight = factor.weight + group * factor.group_stride + r0 * factor.row_stride;
  for (int at = lane; at < rows * lines; at += 32)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(weight + at / lines * factor.row_stride + at % lines * line));
}

// The tiles of a block.
struct FewChainShare {
  int inner_first, inner_tiles;                // of the tiles of all i
  int outer_first, outer_tiles, planes, rank;  // row tiles of each of its planes

  __device__ explicit FewChainShare(const FewChainTask& task) {
    rank = static_cast<int>(rank_in_cluster());
    const int own = static_cast<int>(blockIdx.x) / task.cluster % task.clusters;
    inner_first = rank * task.inner.tiles;
    inner_tiles = max(0, min(task.inner.tiles, task.groups_i * task.inner.row_tiles - inner_first));
    planes = task.planes / task.cluster;
    const int of_plane = task.outer.tiles / planes;
    outer_first = own * of_plane;
    outer_tiles = max(0, min(of_plane, task.outer.row_tiles - outer_first));
  }
  __device__ int i_of(const FewChainTask& task, int tile) const { return (inner_first + tile) / task.inner.row_tiles; }
  __device__ int inner_row(const FewChainTask& task, int tile) const {
    return (inner_first + tile) % task.inner.row_tiles;
  }
  __device__ int plane_of(int tile) const { return tile / outer_tiles; }
  __device__ int outer_row(int tile) const { return outer_first + tile % outer_tiles; }
};

}  // namespace ksmm::hopper
