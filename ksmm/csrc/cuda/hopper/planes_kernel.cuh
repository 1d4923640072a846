// The kernel for batch_first with d > 1 on compute capability 9.0: one pass over X and Y, several j a block.
//
// Two warps issue copies, of X and of W, each into a ring of stages of its own, and a third the bias's; two warpgroups
// take X from there into registers, regrouped by plane (planes_fragments.cuh), and multiply it by W in shared memory, a
// sum for each plane in registers.
#pragma once

#include "overlap.cuh"
#include "planes_bias.cuh"
#include "planes_buffered_store.cuh"
#include "planes_fragments.cuh"
#include "planes_staged_store.cuh"
#include "products.cuh"

namespace ksmm::hopper {

template <class Tile>
__device__ uint64_t describe_plane(uint32_t address) {
  constexpr Swizzle swizzle = Tile::k == 16   ? Swizzle::bytes_32
                              : Tile::k == 32 ? Swizzle::bytes_64
                                              : Swizzle::bytes_128;
  return describe(address, swizzle, 8 * Tile::weight_row_bytes);
}

// The fragments are in registers from here on.
template <int PLANES>
__device__ void fence_fragments(uint32_t (&rows)[PLANES][4]) {
#pragma unroll
  for (int plane = 0; plane < PLANES; ++plane)
#pragma unroll
    for (int at = 0; at < 4; ++at) fence_register(rows[plane][at]);
}

template <class T, class Tile>
__device__ void consume_planes(const PlanesTask& task, uint32_t ring, PlanesShared<Tile>& shared, char* chunks,
                               const CUtensorMap& y, int warpgroup, int thread) {
  constexpr int P = Tile::planes, groups = P / Tile::group, parts = Tile::k / 16 * groups;
  const PlanesFragments<Tile> fragments(warpgroup, thread);
  const uint32_t weights =
      ring + Tile::x_stages * Tile::x_bytes + (Tile::split ? warpgroup * P * Tile::plane_bytes : 0);
  const PlanesCluster<Tile> cluster;
  const int lane = thread % 32;
  Ring<Tile::x_stages> at_x;
  Ring<Tile::weight_stages> at_weight;
  int turn = 0;                                     // which chunk is next
  typename PlanesFragments<Tile>::Columns columns;  // of the part that is next
  constexpr bool early = PlanesFragments<Tile>::reads_early;
  const auto read = [&](int part) {
    const uint32_t stage = ring + at_x.slot * Tile::x_bytes;
    fragments.read_columns(columns, stage, part / groups, part % groups * Tile::group);
  };
  uint32_t bias_phase = 0;
  for (int tile = blockIdx.x / Tile::cluster; tile < task.tiles; tile += gridDim.x / Tile::cluster, bias_phase ^= 1) {
    const PlanesOrigin origin = planes_origin<Tile>(task, tile, cluster.rank);
    float sums[P][Tile::r / 2];
    start_planes<T, Tile>(sums, task, shared, bias_phase, warpgroup, lane);
    shared.full_x[at_x.slot].wait(at_x.phase);
    if (early) read(0);
    for (int k = 0; k < task.c; k += Tile::k, at_weight.advance()) {
      const uint32_t weight = weights + at_weight.slot * Tile::weight_bytes;
      const bool started = k > 0 || task.bias != nullptr;
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        const int step = part / groups, first = part % groups * Tile::group;
        uint32_t rows[Tile::group][4];
        if (!early) read(part);
        fragments.build(rows, columns);
        fence_fragments(rows);
        if (part == 0) shared.full_weight[at_weight.slot].wait(at_weight.phase);
        begin_products();
#pragma unroll
        for (int at = 0; at < Tile::group; ++at)
          Products<T, Tile::r>::from_registers(
              sums[first + at], rows[at], describe_plane<Tile>(weight + (first + at) * Tile::plane_bytes + step * 32),
              step > 0 || started);
        commit_products();
        // Not before: a thread may arrive at a barrier while its reads are on their way, and the copy engine, unlike
        // what threads write, does not queue behind them.
        if (part == parts - 1) cluster.give_x_back(shared.empty_x[at_x.slot], lane), at_x.advance();
        if (part < parts - 1) {
          if (early) read(part + 1);
        } else if (k + Tile::k < task.c) {
          shared.full_x[at_x.slot].wait(at_x.phase);
          if (early) read(0);
        }
        wait_for_products<0>();
      }
      cluster.give_weight_back(shared.empty_weight[at_weight.slot], lane);
      if (k == 0) give_bias_back(task, shared);
    }
    if constexpr (Tile::buffered)
      PlanesBufferedStore<T, Tile>::store(task, y, chunks, origin, sums, warpgroup, thread);
    else if constexpr (Tile::staged)
      PlanesStagedStore<T, Tile>::store(task, y, chunks, origin, sums, warpgroup, thread, turn);
    else
      PlanesStore<T, Tile>::store_groups(task, origin, sums, warpgroup, thread, 0);
  }
  if (Tile::staged && thread == 0) wait_for_store_reads<0>();
}

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::threads, 1)
    planes_kernel(const PlanesTask task, const __grid_constant__ CUtensorMap x,
                  const __grid_constant__ CUtensorMap weight, const __grid_constant__ CUtensorMap y) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr bool helped = Tile::sums + 4 * Tile::group <= 204;  // else the loops of who fetches spill a little
  constexpr int registers = helped ? 232 : 240, helper_registers = helped ? 40 : 24;
  static_assert(registers_suffice<256, registers, 128, helper_registers>);
  static_assert(sizeof(PlanesShared<Tile>) == Tile::beside_bytes);
  extern __shared__ char dynamic[];
  __shared__ PlanesShared<Tile> shared;
  char* ring = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < Tile::x_stages; ++slot)
      shared.full_x[slot].init(1), shared.empty_x[slot].init(8 * Tile::along_r);
    for (int slot = 0; slot < Tile::weight_stages; ++slot)
      shared.full_weight[slot].init(1), shared.empty_weight[slot].init(8 * Tile::along_n);
    shared.full_bias.init(32), shared.empty_bias.init(256);
    publish_barriers();
    prefetch_map(x), prefetch_map(weight);
    if (Tile::staged) prefetch_map(y);
  }
  __syncthreads();
  if constexpr (Tile::cluster > 1) synchronize_cluster();
  if (!task.beside) wait_for_kernels_before();
  const int warpgroup = warpgroup_of_block();
  if (warpgroup == 2) {
    shrink_registers<helper_registers>();
    if (threadIdx.x == 256) produce_x<Tile>(task, x, ring, shared);
    if (threadIdx.x == 288) produce_weight<Tile>(task, weight, ring + Tile::x_stages * Tile::x_bytes, shared);
    if (threadIdx.x / 32 == 10) produce_bias<Tile>(task, shared, threadIdx.x % 32);
  } else {
    grow_registers<registers>();
    char* chunks = ring + Tile::ring_bytes;
    consume_planes<T, Tile>(task, shared_address(ring), shared, chunks, y, warpgroup, threadIdx.x % 128);
  }
  if (task.beside) wait_for_kernel_beside();
  if constexpr (Tile::cluster > 1) {
    __syncwarp();
    synchronize_cluster();  // other blocks may still load into this one, and arrive at its barriers
  }
#endif
}

}  // namespace ksmm::hopper
