// The kernel for batch_first with d > 1 on compute capability 9.0: one pass over X and Y, several j a block.
//
// A warp issues copies of X and W into a ring of stages; two warpgroups take X from there into registers, regrouped by
// plane (planes_fragments.cuh), and multiply it by W in shared memory, a sum for each plane in registers.
#pragma once

#include "overlap.cuh"
#include "planes_buffered_store.cuh"
#include "planes_fragments.cuh"
#include "planes_staged_store.cuh"
#include "products.cuh"

namespace ksmm::hopper {

template <class Tile>
struct PlanesShared {
  Barrier full[Tile::stages], empty[Tile::stages];
};

// A block of a cluster, and those that it shares X or W with.
template <class Tile>
struct PlanesCluster {
  static constexpr int R = Tile::along_r, N = Tile::along_n;
  static constexpr int sharers = R + N - 1;  // of X or W, itself among them
  int rank;

  __device__ PlanesCluster() : rank(Tile::cluster > 1 ? static_cast<int>(rank_in_cluster()) : 0) {}
  __device__ int along_r() const { return rank / N; }
  __device__ int along_n() const { return rank % N; }
  // A bit for each block with the same X, and with the same W.
  __device__ uint16_t with_same_x() const {
    uint16_t blocks = 0;
    for (int r = 0; r < R; ++r) blocks |= 1u << (along_n() + N * r);
    return blocks;
  }
  __device__ uint16_t with_same_weight() const { return ((1u << N) - 1) << N * along_r(); }
  // All of either, by numbers below `sharers`: those with the same X come first.
  __device__ int sharer(int number) const {
    return number < R ? along_n() + N * number : N * along_r() + (along_n() + 1 + number - R) % N;
  }
};

// The number of a tile's first stage in W by stages.
template <class Tile>
__device__ int64_t weight_stage(const PlanesTask& task, const PlanesOrigin& origin) {
  const int64_t tile_j = static_cast<int64_t>(origin.i) * task.tiles_j + origin.j / Tile::j;
  return (tile_j * task.tiles_r * Tile::along_r + origin.r / Tile::r) * ((task.c + Tile::k - 1) / Tile::k);
}

// What a block fetches of such a stage.
template <class Tile>
__device__ void fetch_prepared(uint16_t blocks, char* to, const char* from, Barrier& full) {
  constexpr uint32_t bytes = Tile::own_planes * Tile::plane_bytes;
  if constexpr (Tile::along_n > 1)
    load_bytes_for(blocks, to, from, bytes, full, Keep::last_out);
  else
    load_bytes(to, from, bytes, full, Keep::last_out);
}

// One thread fetches X and W: X first, which comes from further away.
template <class Tile>
__device__ void produce_planes(const PlanesTask& task, const CUtensorMap& x, const CUtensorMap& weight, char* ring,
                               PlanesShared<Tile>& shared) {
  const PlanesCluster<Tile> cluster;
  const uint16_t same_x = cluster.with_same_x(), same_weight = cluster.with_same_weight();
  Ring<Tile::stages> at;
  for (int64_t tile = blockIdx.x / Tile::cluster; tile < task.tiles; tile += gridDim.x / Tile::cluster) {
    const PlanesOrigin origin = planes_origin<Tile>(task, tile, cluster.rank);
    const char* const of_tile = task.weight + weight_stage<Tile>(task, origin) * Tile::weight_bytes;
    for (int k = 0; k < task.c; k += Tile::k, at.advance()) {
      Barrier& full = shared.full[at.slot];
      char* stage = ring + at.slot * Tile::stage_bytes;
      if constexpr (Tile::cluster > 1)
        shared.empty[at.slot].wait_for_cluster(at.phase ^ 1);
      else
        shared.empty[at.slot].wait(at.phase ^ 1);
      full.arrive_expecting(Tile::stage_bytes);
      const auto fetch = [&](uint16_t blocks, bool shared_by_several, char* to, const CUtensorMap& map, Keep keep,
                             auto... at_coordinates) {
        if (shared_by_several)
          load_for(blocks, to, map, full, keep, at_coordinates...);
        else
          load(to, map, full, keep, at_coordinates...);
      };
      const int n = Tile::by_rows ? cluster.along_r() * Tile::own_n : 0;
#pragma unroll
      for (int own = 0; own < Tile::own_boxes; ++own) {
        const int box = Tile::by_rows ? own : own * Tile::along_r + cluster.along_r();
        char* const to = stage + box * Tile::n * Tile::row_bytes + n * Tile::pitch;
        if constexpr (Tile::wide)
          fetch(same_x, Tile::along_r > 1, to, x, Keep::normal, origin.j, k, origin.i, origin.n + n);
        else
          fetch(same_x, Tile::along_r > 1, to, x, Keep::normal, k * Tile::j + box * (Tile::row_bytes / 2), origin.i,
                origin.n + n);
      }
      const int plane = cluster.along_n() * Tile::own_planes;
      char* const own_weight = stage + Tile::x_bytes + plane * Tile::plane_bytes;
      if (task.weight == nullptr)
        fetch(same_weight, Tile::along_n > 1, own_weight, weight, Keep::last_out, k, origin.r, origin.j + plane,
              origin.i);
      else
        fetch_prepared<Tile>(same_weight, own_weight,
                             of_tile + k / Tile::k * Tile::weight_bytes + plane * Tile::plane_bytes, full);
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
  constexpr int P = Tile::planes, groups = P / Tile::group;
  const PlanesFragments<Tile> fragments(warpgroup, thread);
  const uint32_t first_plane = Tile::split ? warpgroup * P * Tile::plane_bytes : 0;
  const PlanesCluster<Tile> cluster;
  const int lane = thread % 32, sharer = cluster.sharer(lane);
  Ring<Tile::stages> at;
  int turn = 0;  // which of two chunks is next
  for (int64_t tile = blockIdx.x / Tile::cluster; tile < task.tiles; tile += gridDim.x / Tile::cluster) {
    const PlanesOrigin origin = planes_origin<Tile>(task, tile, cluster.rank);
    float sums[P][Tile::r / 2];
    start_planes<T, Tile>(sums, task, origin, warpgroup, thread % 32);
    for (int k = 0; k < task.c; k += Tile::k, at.advance()) {
      shared.full[at.slot].wait(at.phase);
      const uint32_t stage = ring + at.slot * Tile::stage_bytes;
      const uint32_t weight = stage + Tile::x_bytes + first_plane;
#pragma unroll
      for (int part = 0; part < Tile::k / 16 * groups; ++part) {
        const int step = part / groups, first = part % groups * Tile::group;
        uint32_t rows[Tile::group][4];
        fragments.build(rows, stage, step, first);
        begin_products();
#pragma unroll
        for (int at = 0; at < Tile::group; ++at)
          Products<T, Tile::r>::from_registers(
              sums[first + at], rows[at], describe_plane<Tile>(weight + (first + at) * Tile::plane_bytes + step * 32),
              true);
        commit_products();
        wait_for_products<0>();
      }
      if constexpr (Tile::cluster > 1) {
        if (lane < cluster.sharers) shared.empty[at.slot].arrive_at(sharer);
      } else if (lane == 0) {
        shared.empty[at.slot].arrive();
      }
    }
    if constexpr (Tile::buffered)
      PlanesBufferedStore<T, Tile>::store(task, y, chunks, origin, sums, warpgroup, thread);
    else if constexpr (Tile::staged)
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
  constexpr bool helped = Tile::cluster > 1 && Tile::sums + 4 * Tile::group <= 200;  // else its loop spills a little
  constexpr int registers = helped ? 232 : 240, helper_registers = helped ? 40 : 24;
  static_assert(registers_suffice<256, registers, 128, helper_registers>);
  extern __shared__ char dynamic[];
  __shared__ PlanesShared<Tile> shared;
  char* ring = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  if (threadIdx.x == 0) {
    constexpr int warps = 8 * PlanesCluster<Tile>::sharers;
    for (int slot = 0; slot < Tile::stages; ++slot) shared.full[slot].init(1), shared.empty[slot].init(warps);
    publish_barriers();
    prefetch_map(x), prefetch_map(weight);
    if (Tile::staged) prefetch_map(y);
  }
  __syncthreads();
  if constexpr (Tile::cluster > 1) synchronize_cluster();
  wait_for_kernels_before();
  const int warpgroup = threadIdx.x / 128;
  if (warpgroup == 2) {
    shrink_registers<helper_registers>();
    if (threadIdx.x == 256) produce_planes<Tile>(task, x, weight, ring, shared);
  } else {
    grow_registers<registers>();
    char* chunks = ring + Tile::stages * Tile::stage_bytes;
    consume_planes<T, Tile>(task, shared_address(ring), shared, chunks, y, warpgroup, threadIdx.x % 128);
  }
  if constexpr (Tile::cluster > 1) {
    __syncwarp();
    synchronize_cluster();  // other blocks may still load into this one, and arrive at its barriers
  }
#endif
}

}  // namespace ksmm::hopper
