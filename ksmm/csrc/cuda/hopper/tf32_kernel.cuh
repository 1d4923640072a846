// Float32 products on the matrix units of compute capability 9.0: rounded to TF32, or compensated, with each number as
// the sum of two of float16 (halves_consumer.cuh) or, exactly, as that of three of bfloat16, which take half the time
// of TF32:
//
//   x w = (x0 + x1 + x2) (w0 + w1 + w2) = x0 w0 + (x0 w1 + x1 w0) + (x1 w1 + x0 w2 + x2 w0) + less than 2^-25 of it
//
// Two of TF32 and three products would take as long, but have 23 bits, one fewer than float32: sums that one product
// dominates then have twice the error of strict float32.
//
// Persistent blocks of three or four warpgroups: a first thread that copies boxes of X and W to a ring of stages, three
// or seven warps that split W there (halves of W come as such), and two warpgroups that multiply. Those read X into
// registers, where it is split, in whatever layout it has: neither layout needs a transposition. The matrix units
// truncate what they add up, so they add up FRESH of c only, and the main products apart from the corrections; float32
// additions do the rest. Where products of badly scaled W may dominate their sums that is still not as exact as strict
// float32, and their tiles are multiplied once more by its instructions (tf32_again.cuh).
#pragma once

#include <type_traits>

#include "halves_consumer.cuh"
#include "overlap.cuh"
#include "tf32_consumer.cuh"
#include "tf32_splitter.cuh"
#include "tf32_store.cuh"

namespace ksmm::hopper {

// Each warp of those that multiply says whether the tile is left to the kernel that follows. All lanes call it.
template <class Consumer>
__device__ inline void leave(const Tf32Task& task, int tile, bool is_left, const Consumer& consumer) {
  const bool any = __any_sync(~0u, is_left);
  if (consumer.lane == 0)
    reinterpret_cast<uint8_t*>(task.halves.left + tile)[consumer.warpgroup * 4 + consumer.warp] = any;
}

template <class Tile>
__device__ inline void consume(const Tf32Task& task, char* stages, char* staging, Tf32Shared<Tile>& shared,
                               int thread) {
  std::conditional_t<Tile::in_halves, HalvesConsumer<Tile>, Tf32Consumer<Tile>> consumer;
  consumer.warpgroup = Tile::uniform ? warpgroup_of_block() - Tile::producer_threads / 128 : thread / 128;
  consumer.warp = thread / 32 % 4, consumer.lane = thread % 32;
  const int first_plane = Tile::split ? consumer.warpgroup * Tile::warpgroup_planes : 0;
  Ring<Tile::stages> ring;
  const auto slot_before = [&] { return ring.slot == 0 ? Tile::stages - 1 : ring.slot - 1; };
  bool begun = false;
  for (int tile = Tile::in_turn ? tile_of_stage(shared, ring) : blockIdx.x; tile < task.tiles;
       tile = Tile::in_turn ? tile_of_stage(shared, ring) : tile + gridDim.x) {
    const Tf32Position at = position_of<Tile>(task, tile);
    if (!Tile::in_turn && leaves_out<Tile>(task, at, tile)) {
      if constexpr (Tile::in_halves) leave(task, tile, true, consumer);
      continue;
    }
    consumer.clear();
    const uint32_t own_rows =
        Tile::access == Access::shifted ? place_of_shifted<Tile>(task, at.i, at.plane_tile, consumer.lane) : 0;
    for (int k = 0; k < task.c; k += Tile::k, ring.advance()) {
      const uint32_t x = shared_address(stages + ring.slot * Tile::stage_bytes);
      const uint32_t rows =
          x + Tile::x_bytes + (Tile::in_parts ? Tile::weight_bytes : 0) + first_plane * Tile::rows * Tile::row_bytes;
      const uint64_t weight = describe(rows, Tile::swizzle, 8 * Tile::row_bytes);
      const bool is_first = k == 0 && !(Tile::keeps_stage && begun);
      shared.full[ring.slot].wait(ring.phase);
      if constexpr (!Tile::in_halves) shared.split[ring.slot].wait(ring.phase);
      consumer.stage(x + own_rows, weight, is_first ? nullptr : &shared.empty[slot_before()]);
    }
    begun = true;
    bool again = false;
    if constexpr (Tile::in_parts) again = is_badly_scaled(shared, slot_before());
    consumer.drain(Tile::keeps_stage ? nullptr : &shared.empty[slot_before()]);
    const Tf32Place place = {at.i, at.row_tile * Tile::rows, at.plane_tile * Tile::planes + first_plane,
                             static_cast<int64_t>(at.batch_tile) * Tile::batch +
                                 (Tile::split ? 0 : consumer.warpgroup * Tile::warpgroup_batch)};
    if constexpr (Tile::in_halves) {
      leave(task, tile, consumer.any_dominated(task.c), consumer);
      const int64_t first_scale = (weight_tile(task, at) * Tile::planes + first_plane) * Tile::rows;
      scale_back<Tile>(task, consumer.sums, place, task.halves.scales + first_scale, consumer.lane);
    } else {
      add_bias<Tile>(task, consumer.sums, place, consumer.lane);
    }
    if constexpr (Tile::keeps_stage) {
      synchronize(consumer_barrier, consumer_threads);  // both warpgroups have read the stage
    } else {
      if (Tile::staged && consumer.lane == 0) wait_for_store_reads<0>();  // of the tile before
    }
    if (Tile::in_parts && again) {
      multiply_again<Tile>(task, at.i, at.row_tile * Tile::rows, at.plane_tile * Tile::planes,
                           static_cast<int64_t>(at.batch_tile) * Tile::batch, thread);
    } else if constexpr (Tile::staged) {
      char* const places = Tile::keeps_stage ? stages + slot_before() * Tile::stage_bytes : staging;
      // which of those that multiply; from uniform registers where the warpgroup's number is in one
      const int own = Tile::uniform ? consumer.warpgroup * 4 + consumer.warp : thread / 32;
      store_batch_first<Tile>(task, consumer.sums, place, places + (Tile::split ? 0 : own) * Tile::place_bytes,
                              consumer.warpgroup, consumer.warp, consumer.lane);
    } else if constexpr (Tile::access == Access::shifted) {
      store_shifted<Tile>(task, consumer.sums, place, consumer.warp, consumer.lane);
    } else {
      store_batch_last<Tile>(task, consumer.sums, place, consumer.warp, consumer.lane);
    }
  }
  if (Tile::staged && consumer.lane == 0) wait_for_store_reads<0>();
}

template <class Tile>
__global__ void __launch_bounds__(Tile::threads, 1) multiply_tf32(const __grid_constant__ Tf32Task task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  static_assert(
      registers_suffice<consumer_threads, Tile::consumer_registers, Tile::producer_threads, Tile::producer_registers>);
  static_assert(sizeof(Tf32Shared<Tile>) <= Tile::barrier_bytes);
  extern __shared__ char memory[];
  char* const stages = memory + (1024 - shared_address(memory) % 1024) % 1024;
  char* const staging = stages + Tile::stages * Tile::stage_bytes;
  auto& shared = *reinterpret_cast<Tf32Shared<Tile>*>(staging + Tile::staging_bytes);
  const int thread = threadIdx.x;
  if (thread == 0) {
    for (int slot = 0; slot < Tile::stages; ++slot) {
      shared.full[slot].init(1);
      shared.split[slot].init(Tile::splitter_threads);
      shared.empty[slot].init(Tile::givers);
    }
    publish_barriers();
    prefetch_map(task.x);
    if constexpr (!Tile::in_halves) prefetch_map(task.weight);
  }
  __syncthreads();
  wait_for_kernels_before();
  if constexpr (Tile::in_parts)
    if (task.halves.left != nullptr && !any_left(task)) return;
  if (thread < Tile::producer_threads) {
    shrink_registers<Tile::producer_registers>();
    if (thread == 0) produce<Tile>(task, stages, shared);
    if (!Tile::in_halves && thread >= 32) split_weight<Tile>(task, stages, shared, thread - 32);
  } else {
    grow_registers<Tile::consumer_registers>();
    consume<Tile>(task, stages, staging, shared, thread - Tile::producer_threads);
  }
#endif
}

}  // namespace ksmm::hopper
