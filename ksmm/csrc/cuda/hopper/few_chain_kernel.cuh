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

#include "few_chain_task.cuh"
#include "overlap.cuh"

namespace ksmm::hopper {

// Adds W X over the part of k. read_x(group, k) gives the eight k that this thread has of a step, of row lane / 4 of a
// group of eight n; what it gives beyond `end` is not used.
template <class T, int GROUPS, class ReadX>
__device__ inline void multiply_few(float (&sums)[GROUPS][4], FewChainWeights& weights, ReadX read_x) {
  const int own = threadIdx.x % 4 * 8;
  while (true) {
#pragma unroll
    for (int group = 0; group < GROUPS; ++group) {
      uint4 x[few_chain_ahead];
#pragma unroll
      for (int step = 0; step < few_chain_ahead; ++step) {
        const int k = weights.k + step * few_chain_step;
        x[step] = k < weights.end ? read_x(group, k) : uint4{0, 0, 0, 0};
        if (k + own >= weights.end) x[step] = uint4{0, 0, 0, 0};
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

// What is between the factors lies in shared memory as [plane][group of eight n][k][n]: 16 bytes for each k, which one
// thread writes at once. Of every four times eight k, those that are read together lie in different banks.
__device__ inline int place_of(int k) { return (k & ~7) | ((k & 7) ^ ((k >> 3 & 3) * 2)); }

__device__ inline uint4 read_between(const uint4* plane, int k) {
  const int lane = threadIdx.x % 32;
  uint32_t words[4];  // word q: k = 8 (lane % 4) + 2 q and the next, n = lane / 4
  load_matrices_transposed(words, plane + place_of(k + lane % 8 / 2 * 8 + lane / 8 * 2 + lane % 2));
  return {words[0], words[1], words[2], words[3]};
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

// Of the tiles of a block: the sums of eight n over all parts, in their order, handed to use(tile, r of the tile, group
// of n, sums).
template <int GROUPS, class Use>
__device__ inline void take_sums(const float* partial, int tiles, int parts, Use use) {
  constexpr int size = few_chain_tile * 8 * GROUPS;
  for (int at = threadIdx.x; at < tiles * few_chain_tile * GROUPS; at += few_chain_threads) {
    const int tile = at / (few_chain_tile * GROUPS), place = at % (few_chain_tile * GROUPS);
    const float* of_tile = partial + tile * parts * size + place * 8;
    float sums[8] = {};
    for (int part = 0; part < parts; ++part)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float4 four = *reinterpret_cast<const float4*>(of_tile + part * size + 4 * half);
        sums[4 * half] += four.x, sums[4 * half + 1] += four.y, sums[4 * half + 2] += four.z,
            sums[4 * half + 3] += four.w;
      }
    use(tile, place / GROUPS, place % GROUPS, sums);
  }
}

// Rounded, into the shared memory of a block of the cluster, at the place of `own` in one's own.
template <class T>
__device__ inline void store_at(uint32_t block, const uint4* own, const float (&sums)[8]) {
  uint32_t words[4];
#pragma unroll
  for (int q = 0; q < 4; ++q)
    words[q] = to_bits<T>(sums[2 * q]) | static_cast<uint32_t>(to_bits<T>(sums[2 * q + 1])) << 16;
  asm volatile(
      "{.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "st.shared::cluster.v4.b32 [remote], {%2, %3, %4, %5};}" ::"r"(shared_address(own)),
      "r"(block), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
      : "memory");
}

// A block at its work, step by step.
template <class T, int GROUPS>
struct FewChainBlock {
  static constexpr int rows = 8 * GROUPS, size = few_chain_tile * rows;  // n, and sums of a tile
  const FewChainTask& task;
  FewChainShare share;
  uint4* between;
  float* partial;  // sums by tile and part
  int warp, lane, n0;

  __device__ FewChainBlock(const FewChainTask& of, uint4* memory) : task(of), share(of), between(memory) {
    partial = reinterpret_cast<float*>(between + share.planes * GROUPS * task.pitch);
    warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    n0 = static_cast<int>(blockIdx.x) / (task.cluster * task.clusters) * rows;
  }
  __device__ int outer_tiles() const { return share.planes * share.outer_tiles; }
  __device__ int plane_of(int tile) const { return share.rank + share.plane_of(tile) * task.cluster; }

  __device__ void prefetch_weights() const {
    for (int tile = warp; tile < share.inner_tiles; tile += few_chain_warps)
      prefetch_tile(task.inner, share.i_of(task, tile), share.inner_row(task, tile));
    for (int tile = warp; tile < outer_tiles(); tile += few_chain_warps)
      prefetch_tile(task.outer, plane_of(tile), share.outer_row(tile));
  }
  __device__ void multiply_inner() const {
    for (int item = warp; item < share.inner_tiles * task.inner.parts; item += few_chain_warps) {
      const int tile = item / task.inner.parts, i = share.i_of(task, tile);
      FewChainWeights weights(task.inner, i, share.inner_row(task, tile), item % task.inner.parts);
      const uint16_t* x = task.x + static_cast<int64_t>(i) * task.inner.c;
      float sums[GROUPS][4] = {};
      multiply_few<T, GROUPS>(sums, weights, [&](int group, int k) {
        const int n = n0 + 8 * group + lane / 4;
        return read_eight(n < task.batch ? x + n * task.x_stride : nullptr, k + lane % 4 * 8, weights.end);
      });
      leave_sums<GROUPS>(partial + item * size, sums);
    }
  }
  // To the blocks that have their planes.
  __device__ void pass_on() const {
    take_sums<GROUPS>(partial, share.inner_tiles, task.inner.parts,
                      [&](int tile, int r_of_tile, int group, const float (&sums)[8]) {
                        const int r = share.inner_row(task, tile) * few_chain_tile + r_of_tile;
                        if (r >= task.inner.b) return;
                        const int feature = share.i_of(task, tile) * task.inner.b + r;
                        const int j = feature % task.planes, k = feature / task.planes;
                        const int plane = (j / task.cluster * GROUPS + group) * task.pitch;
                        store_at<T>(j % task.cluster, between + plane + place_of(k), sums);
                      });
  }
  // Of a tile and part of the outer factor; of the last one where there are not as many.
  __device__ FewChainWeights outer_weights(int item) const {
    item = min(item, outer_tiles() * task.outer.parts - 1);
    const int tile = item / task.outer.parts;
    return FewChainWeights(task.outer, plane_of(tile), share.outer_row(tile), item % task.outer.parts);
  }
  // weights: of the warp's first item.
  __device__ void multiply_outer(FewChainWeights& weights) const {
    for (int item = warp; item < outer_tiles() * task.outer.parts; item += few_chain_warps) {
      if (item != warp) weights = outer_weights(item);
      const uint4* plane = between + share.plane_of(item / task.outer.parts) * GROUPS * task.pitch;
      float sums[GROUPS][4] = {};
      multiply_few<T, GROUPS>(sums, weights,
                              [&](int group, int k) { return read_between(plane + group * task.pitch, k); });
      leave_sums<GROUPS>(partial + item * size, sums);
    }
  }
  __device__ void write() const {
    const int64_t features = static_cast<int64_t>(task.outer.b) * task.planes;
    take_sums<GROUPS>(partial, outer_tiles(), task.outer.parts,
                      [&](int tile, int r_of_tile, int group, const float (&sums)[8]) {
                        const int r = share.outer_row(tile) * few_chain_tile + r_of_tile, first = n0 + 8 * group;
                        if (r >= task.outer.b) return;
                        const int64_t feature = static_cast<int64_t>(r) * task.planes + plane_of(tile);
                        const float bias = task.bias == nullptr ? 0.0f : to_float<T>(read_only(task.bias + feature));
#pragma unroll
                        for (int n = 0; n < 8; ++n)
                          if (first + n < task.batch)
                            task.y[(first + n) * features + feature] = to_bits<T>(sums[n] + bias);
                      });
  }
};

template <class T, int GROUPS>
__global__ void __launch_bounds__(few_chain_threads, 1) few_chain_kernel(const FewChainTask task) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  extern __shared__ uint4 memory[];
  arrive_in_cluster();  // this block can be written to
  const FewChainBlock<T, GROUPS> block(task, memory);
  block.prefetch_weights();
  wait_for_kernels_before();
  block.multiply_inner();
  FewChainWeights weights = block.outer_weights(block.warp);  // on their way while the blocks wait
  __syncthreads();
  wait_for_cluster();
  block.pass_on();
  synchronize_cluster();
  block.multiply_outer(weights);
  __syncthreads();
  block.write();
#endif
}

}  // namespace ksmm::hopper
