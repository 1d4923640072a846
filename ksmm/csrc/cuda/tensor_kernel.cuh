// The matrix-unit kernel: Y[n, i, r, j] = sum over k of X[n, i, k, j] * W[i, r, k, j], float16 or bfloat16, either
// layout.
//
// X stays in its own order all the way: in batch_last [k][n], which ldmatrix transposes as it reads; in batch_first
// [n][k][j], from which a thread reads (k, j .. j+7) and (k+1, j .. j+7) and pairs them, by byte permutation, into the
// words (k, k+1) that the matrix units want, one for each of the 8 j. So a warp multiplies up to 16 j side by side.
//
// Faster than the version before, which had a single step on its way, and none while it wrote a tile: blocks stay and
// take tile after tile, and the copies run several steps ahead of the products, across the end of a tile. Four
// neighbouring lanes exchange what they hold of Y, so that whole sectors of 32 bytes are written, or 64 bytes.
//
// Index arithmetic and copies run on the host too, where tests/cuda/emulate.cu executes them.
#pragma once

#include "tensor_store.cuh"

namespace ksmm {

// Empty below compute capability 8.0, whose kernels are never launched (tensor.cuh).
template <class T, Layout LAYOUT, class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks_per_multiprocessor)
    tensor_kernel(const TensorTask<T> task) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  using Copy = TensorCopy<T, LAYOUT, Tile>;
  using Products = TensorProducts<T, LAYOUT, Tile>;
  using Store = TensorStore<T, LAYOUT, Tile>;
  extern __shared__ __align__(16) uint16_t shared[];
  const int thread = static_cast<int>(threadIdx.x);

  // The step that is copied next, stages - 1 steps ahead of the one that is multiplied.
  int64_t ahead_tile = blockIdx.x, ahead_k = 0;
  const auto source_of = [&](int64_t tile) {
    return Copy::source_of(task, tile_origin(task, tile, Tile::n, Tile::r, Tile::j));
  };
  auto ahead = source_of(ahead_tile);
  const auto copy_ahead = [&](int slot) {
    if (ahead_tile < task.tiles) {
      Copy::copy(shared + slot * Products::Shared::step_size, task, ahead, ahead_k,
                 Tile::sums_per_thread < 128 || Tile::j == 1 ? thread : opaque(thread));
      ahead_k += Tile::k;
      if (ahead_k >= task.c) {
        ahead_k = 0, ahead_tile += gridDim.x;
        ahead = source_of(ahead_tile);
      }
    }
    commit_copies();
  };
#pragma unroll 1
  for (int slot = 0; slot < Tile::stages - 1; ++slot) copy_ahead(slot);

  int present = 0, free = Tile::stages - 1;
  for (int64_t tile = blockIdx.x; tile < task.tiles; tile += gridDim.x) {
    typename Products::Registers registers = {};
    for (int64_t k = 0; k < task.c; k += Tile::k) {
      wait_for_groups<Tile::stages - 2>();
      __syncthreads();  // every thread's copies of `present` are there, and nobody still reads `free`
      copy_ahead(free);
      Products::multiply(registers, shared + present * Products::Shared::step_size, opaque(thread));
      free = present;
      present = present + 1 == Tile::stages ? 0 : present + 1;
    }
    // the origin is computed again: cheaper than to keep it through the products
    const Origin again = tile_origin(task, opaque(tile), Tile::n, Tile::r, Tile::j);
    Store::add_bias(registers, task, again, opaque(thread));
    Store::store(registers, task, again, opaque(thread));
  }
#endif
}

}  // namespace ksmm
