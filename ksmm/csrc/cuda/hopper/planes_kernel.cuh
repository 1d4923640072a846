// The kernel for batch_first with d > 1 on compute capability 9.0: one pass over X and Y, several j a block.
//
// A warp issues copies of X and W into a ring of stages; two warpgroups take X from there into registers, regrouped by
// plane (planes_fragments.cuh), and multiply it by W in shared memory, a sum for each plane in registers.
#pragma once

#include "overlap.cuh"
#include "planes_fragments.cuh"
#include "planes_store.cuh"
#include "products.cuh"

namespace ksmm::hopper {

template <class Tile>
struct PlanesShared {
  Barrier full[Tile::stages], empty[Tile::stages];
};

// One thread fetches X and W: X first, which comes from further away.
template <class Tile>
__device__ void produce_planes(const PlanesTask& task, const CUtensorMap& x, const CUtensorMap& weight, char* ring,
                               PlanesShared<Tile>& shared) {
  Ring<Tile::stages> at;
  for (int64_t tile = blockIdx.x; tile < task.tiles; tile += gridDim.x) {
    const PlanesOrigin origin = planes_origin<Tile>(task, tile);
    for (int k = 0; k < task.c; k += Tile::k, at.advance()) {
      shared.empty[at.slot].wait(at.phase ^ 1);
      Barrier& full = shared.full[at.slot];
      char* stage = ring + at.slot * Tile::stage_bytes;
      full.arrive_expecting(Tile::stage_bytes);
      if constexpr (Tile::wide) {
        load(stage, x, full, Keep::normal, origin.j, k, origin.i, origin.n);
      } else {
#pragma unroll
        for (int box = 0; box < Tile::boxes; ++box)
          load(stage + box * Tile::n * Tile::row_bytes, x, full, Keep::normal,
               k * Tile::j + box * (Tile::row_bytes / 2), origin.i, origin.n);
      }
      load(stage + Tile::x_bytes, weight, full, Keep::last_out, k, origin.r, origin.j, origin.i);
    }
  }
}

template <class Tile>
__device__ uint64_t describe_plane(uint32_t address) {
  constexpr Swizzle swizzle = Tile::k == 16   ? Swizzle::bytes_32
                              : Tile::k == 32 ? Swizzle::bytes_64
                                              : Swizzle::bytes_128;
  return describe(address, swizzle, 8 * Tile::weight_row_bytes);
}

template <class T, class Tile>
__device__ void consume_planes(const PlanesTask& task, uint32_t ring, PlanesShared<Tile>& shared, char* chunks,
                               const CUtensorMap& y, int warpgroup, int thread) {
  constexpr int P = Tile::planes;
  const PlanesFragments<Tile> fragments(warpgroup, thread);
  const uint32_t first_plane = Tile::split ? warpgroup * P * Tile::plane_bytes : 0;
  Ring<Tile::stages> at;
  int turn = 0;  // which of two chunks is next
  for (int64_t tile = blockIdx.x; tile < task.tiles; tile += gridDim.x) {
    const PlanesOrigin origin = planes_origin<Tile>(task, tile);
    float sums[P][Tile::r / 2];
    start_planes<T, Tile>(sums, task, origin, warpgroup, thread % 32);
    for (int k = 0; k < task.c; k += Tile::k, at.advance()) {
      shared.full[at.slot].wait(at.phase);
      const uint32_t stage = ring + at.slot * Tile::stage_bytes;
      const uint32_t weight = stage + Tile::x_bytes + first_plane;
#pragma unroll
      for (int step = 0; step < Tile::k / 16; ++step) {
        uint32_t rows[P][4];
        fragments.build(rows, stage, step);
        begin_products();
#pragma unroll
        for (int plane = 0; plane < P; ++plane)
          Products<T, Tile::r>::from_registers(
              sums[plane], rows[plane], describe_plane<Tile>(weight + plane * Tile::plane_bytes + step * 32), true);
        commit_products();
        wait_for_products<0>();
      }
      if (thread % 32 == 0) shared.empty[at.slot].arrive();
    }
    if constexpr (Tile::staged)
      PlanesStagedStore<T, Tile>::store(task, y, chunks, origin, sums, warpgroup, thread, turn);
    else
      PlanesStore<T, Tile>::store(task, origin, sums, warpgroup, thread);
  }
  if (Tile::staged && thread == 0) wait_for_store_reads<0>();
}

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::threads, 1)
    planes_kernel(const PlanesTask task, const __grid_constant__ CUtensorMap x,
                  const __grid_constant__ CUtensorMap weight, const __grid_constant__ CUtensorMap y) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  static_assert(registers_suffice<256, 240, 128, 24>);
  extern __shared__ char dynamic[];
  __shared__ PlanesShared<Tile> shared;
  char* ring = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < Tile::stages; ++slot) shared.full[slot].init(1), shared.empty[slot].init(8);
    publish_barriers();
    prefetch_map(x), prefetch_map(weight);
    if (Tile::staged) prefetch_map(y);
  }
  __syncthreads();
  wait_for_kernels_before();
  const int warpgroup = threadIdx.x / 128;
  if (warpgroup == 2) {
    shrink_registers<24>();
    if (threadIdx.x == 256) produce_planes<Tile>(task, x, weight, ring, shared);
  } else {
    grow_registers<240>();
    char* chunks = ring + Tile::stages * Tile::stage_bytes;
    consume_planes<T, Tile>(task, shared_address(ring), shared, chunks, y, warpgroup, threadIdx.x % 128);
  }
#endif
}

}  // namespace ksmm::hopper
