// The strict float32 kernel for products that have too few tiles for all multiprocessors.
//
// A block may have several parts, each with stages of its own, which take the steps of k in turns and add their sums up
// in the end, always in the same order: a multiprocessor that has one tile is waiting for memory, barriers and the
// products before most of the time.
#pragma once

#include "hopper/overlap.cuh"
#include "named_barrier.cuh"
#include "strict_kernel.cuh"

namespace ksmm {

template <class Tile, int PARTS>
struct SmallStrict {
  static constexpr int threads = PARTS * Tile::threads;
  static constexpr int blocks_per_multiprocessor = (Tile::blocks_per_multiprocessor + PARTS - 1) / PARTS;
  static constexpr int sums = Tile::thread_n * Tile::thread_r;  // of a thread
  static constexpr int stages_floats = Tile::stages * Tile::stage_floats;
  static constexpr int floats = PARTS * stages_floats > Tile::sum_floats ? PARTS * stages_floats : Tile::sum_floats;
  static constexpr int shared_bytes = 4 * floats;
  static_assert((PARTS - 1) * sums * Tile::threads <= floats, "sums of the other parts lie where stages were");
  static_assert(PARTS < 16, "each part has a barrier of its own");
  static_assert(threads <= 1024 && shared_bytes <= 99 * 1024, "of a block");
};

// Adds the sums of the other parts to those of the first. All threads of the block call it.
template <class Tile, int PARTS, class Registers>
__device__ __forceinline__ void add_parts(Registers& registers, float* shared, int part, int thread) {
  if constexpr (PARTS > 1) {
    using Small = SmallStrict<Tile, PARTS>;
    float* place = shared + thread;
    __syncthreads();  // nobody still reads what was there
#pragma unroll
    for (int at = 0; at < Small::sums; ++at)
      if (part > 0)
        place[((part - 1) * Small::sums + at) * Tile::threads] =
            registers.sums[at / Tile::thread_r][at % Tile::thread_r];
    __syncthreads();
    if (part > 0) return;
#pragma unroll
    for (int other = 1; other < PARTS; ++other)
#pragma unroll
      for (int at = 0; at < Small::sums; ++at)
        registers.sums[at / Tile::thread_r][at % Tile::thread_r] +=
            place[((other - 1) * Small::sums + at) * Tile::threads];
  }
}

template <Layout LAYOUT, class Tile, int PARTS>
__global__ void __launch_bounds__(PARTS* Tile::threads, SmallStrict<Tile, PARTS>::blocks_per_multiprocessor)
    small_strict_kernel(const Task<float> task) {
  using Steps = StrictSteps<LAYOUT, Tile>;
  extern __shared__ __align__(16) float shared[];
  const int thread = static_cast<int>(threadIdx.x) % Tile::threads,
            part = static_cast<int>(threadIdx.x) / Tile::threads;
  const auto barrier = [=] {
    if constexpr (PARTS == 1)
      __syncthreads();
    else
      synchronize(1 + part, Tile::threads);
  };
  hopper::wait_for_kernels_before();

  for (int64_t tile = blockIdx.x; tile < task.tiles; tile += gridDim.x) {
    typename Steps::Sums::Registers registers = {};
    typename Steps::Cursors cursors =
        Steps::start(task, tile_origin(task, tile, Tile::n, Tile::r, Tile::j), opaque(thread));
    Steps::skip(cursors, task, part * Tile::k);
    float* stages = shared + part * SmallStrict<Tile, PARTS>::stages_floats;
    multiply_tile<Tile, PARTS, Steps>(registers, stages, cursors, task, task.c - part * Tile::k, thread, barrier);
    add_parts<Tile, PARTS>(registers, shared, part, thread);
    if (part == 0) store_tile<Tile, Steps>(registers, shared, task, tile, thread, barrier);
    if (tile + gridDim.x < task.tiles) __syncthreads();  // the next tile overwrites shared memory
  }
}

}  // namespace ksmm
