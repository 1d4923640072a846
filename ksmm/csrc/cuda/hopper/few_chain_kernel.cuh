// Two factors of a handful of rows n in one launch: (1, b, c, d) · (a', b', c', 1), what a Monarch layer is, for the
// tokens that a language model decodes. Both weights are read once, and little else.
//
// The blocks of a cluster share the rows r of the inner factor, and write each sum, rounded as in device memory, to the
// shared memory of the block that has its plane j of the outer factor. Where the outer factor has many rows, several
// clusters share them, and each computes the inner factor for itself.
//
// W is the first operand of the matrix instruction (16 r by 16 k) and X the second (16 k by 8 n). In which order k are
// added up does not matter as long as both operands agree: a thread takes the eight k that it reads in 16 bytes.
#pragma once

#include "../matrix_unit.cuh"
#include "barrier.cuh"
#include "overlap.cuh"

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
  int pitch;                    // elements from one n to the next of what is between the factors
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

// Adds W X over the part of k. read_x(n, k) gives eight k of row n, zeros where there are none.
template <class T, int GROUPS, class ReadX>
__device__ inline void multiply_few(float (&sums)[GROUPS][4], FewChainWeights& weights, ReadX read_x) {
  const int own = threadIdx.x % 4 * 8, n = threadIdx.x % 32 / 4;
  while (true) {
#pragma unroll
    for (int group = 0; group < GROUPS; ++group) {
      uint4 x[few_chain_ahead];
#pragma unroll
      for (int step = 0; step < few_chain_ahead; ++step) {
        const int k = weights.k + own + step * few_chain_step;
        x[step] = k < weights.end ? read_x(8 * group + n, k) : uint4{0, 0, 0, 0};
      }
#pragma unroll
      for (int step = 0; step < few_chain_ahead; ++step) {
        const uint4 low = weights.words[0][step], high = weights.words[1][step];
        multiply_add<T>(sums[group], {low.x, high.x, low.y, high.y}, x[step].x, x[step].y);
        multiply_add<T>(sums[group], {low.z, high.z, low.w, high.w}, x[step].z, x[step].w);
      }
    }
    weights.k += few_chain_ahead * few_chain_step;
    if (weights.k >= weights.end) break;
    weights.read();
  }
}

// Leaves the sums of a tile's part in shared memory, 16 r by 8 GROUPS n.
template <int GROUPS>
__device__ inline void leave_sums(float* part, const float (&sums)[GROUPS][4]) {
  const int r = threadIdx.x % 32 / 4, n = threadIdx.x % 4 * 2;
#pragma unroll
  for (int group = 0; group < GROUPS; ++group)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<float2*>(part + (r + 8 * half) * 8 * GROUPS + 8 * group + n) = {sums[group][2 * half],
                                                                                        sums[group][2 * half + 1]};
}

// Of the tiles of a block: each sum over its parts, in their order, handed to use(tile, r of the tile, n, sum).
template <int GROUPS, class Use>
__device__ inline void take_sums(const float* sums, int tiles, int parts, Use use) {
  constexpr int rows = 8 * GROUPS, size = few_chain_tile * rows;
  for (int at = threadIdx.x; at < tiles * size; at += few_chain_threads) {
    const int tile = at / size, place = at % size;
    const float* of_tile = sums + tile * parts * size + place;
    float sum = of_tile[0];
    for (int part = 1; part < parts; ++part) sum += of_tile[part * size];
    use(tile, place / rows, place % rows, sum);
  }
}

// Into the shared memory of a block of the cluster, at the place of `own` in one's own.
__device__ inline void store_at(uint32_t block, const uint16_t* own, uint16_t value) {
  asm volatile(
      "{.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "st.shared::cluster.u16 [remote], %2;}" ::"r"(shared_address(own)),
      "r"(block), "h"(value)
      : "memory");
}

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

template <class T, int GROUPS>
__global__ void __launch_bounds__(few_chain_threads, 1) few_chain_kernel(const FewChainTask task) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr int rows = 8 * GROUPS, size = few_chain_tile * rows;
  extern __shared__ uint4 memory[];
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");  // this block can be written to
  const FewChainShare share(task);
  auto* between = reinterpret_cast<uint16_t*>(memory);  // [plane][n][k]
  auto* partial = reinterpret_cast<float*>(between + share.planes * rows * task.pitch);
  const int warp = threadIdx.x / 32, outer_tiles = share.planes * share.outer_tiles;
  const int n0 = static_cast<int>(blockIdx.x) / (task.cluster * task.clusters) * rows;
  const int inner_items = share.inner_tiles * task.inner.parts, outer_items = outer_tiles * task.outer.parts;
  for (int tile = warp; tile < share.inner_tiles; tile += few_chain_warps)
    prefetch_tile(task.inner, share.i_of(task, tile), share.inner_row(task, tile));
  for (int tile = warp; tile < outer_tiles; tile += few_chain_warps)
    prefetch_tile(task.outer, share.rank + share.plane_of(tile) * task.cluster, share.outer_row(tile));
  wait_for_kernels_before();

  const auto outer_weights = [&](int item) {
    const int tile = item / task.outer.parts;
    return FewChainWeights(task.outer, share.rank + share.plane_of(tile) * task.cluster, share.outer_row(tile),
                           item % task.outer.parts);
  };
  for (int item = warp; item < inner_items; item += few_chain_warps) {
    const int tile = item / task.inner.parts, i = share.i_of(task, tile);
    FewChainWeights of_inner(task.inner, i, share.inner_row(task, tile), item % task.inner.parts);
    const uint16_t* x = task.x + static_cast<int64_t>(i) * task.inner.c;
    float sums[GROUPS][4] = {};
    multiply_few<T, GROUPS>(sums, of_inner, [&](int n, int k) {
      return n0 + n < task.batch ? __ldg(reinterpret_cast<const uint4*>(x + (n0 + n) * task.x_stride + k))
                                 : uint4{0, 0, 0, 0};
    });
    leave_sums<GROUPS>(partial + item * size, sums);
  }
  FewChainWeights weights = outer_weights(min(warp, outer_items - 1));  // on their way while the blocks wait
  __syncthreads();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  take_sums<GROUPS>(partial, share.inner_tiles, task.inner.parts, [&](int tile, int r_of_tile, int n, float sum) {
    const int r = share.inner_row(task, tile) * few_chain_tile + r_of_tile;
    if (r >= task.inner.b) return;
    const int feature = share.i_of(task, tile) * task.inner.b + r, j = feature % task.planes, k = feature / task.planes;
    store_at(j % task.cluster, between + (j / task.cluster * rows + n) * task.pitch + k, to_bits<T>(sum));
  });
  synchronize_cluster();

  for (int item = warp; item < outer_items; item += few_chain_warps) {
    if (item != warp) weights = outer_weights(item);
    const uint16_t* x = between + share.plane_of(item / task.outer.parts) * rows * task.pitch;
    float sums[GROUPS][4] = {};
    multiply_few<T, GROUPS>(sums, weights,
                            [&](int n, int k) { return *reinterpret_cast<const uint4*>(x + n * task.pitch + k); });
    leave_sums<GROUPS>(partial + item * size, sums);
  }
  __syncthreads();
  take_sums<GROUPS>(partial, outer_tiles, task.outer.parts, [&](int tile, int r_of_tile, int n, float sum) {
    const int r = share.outer_row(tile) * few_chain_tile + r_of_tile;
    if (r >= task.outer.b || n0 + n >= task.batch) return;
    const int64_t feature = static_cast<int64_t>(r) * task.planes + share.rank + share.plane_of(tile) * task.cluster;
    const float bias = task.bias == nullptr ? 0.0f : to_float<T>(read_only(task.bias + feature));
    task.y[(n0 + n) * static_cast<int64_t>(task.outer.b) * task.planes + feature] = to_bits<T>(sum + bias);
  });
#endif
}

}  // namespace ksmm::hopper
