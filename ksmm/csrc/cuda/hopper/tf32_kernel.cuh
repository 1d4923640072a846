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
// additions do the rest.
#pragma once

#include <type_traits>

#include "copy.cuh"
#include "halves_consumer.cuh"
#include "overlap.cuh"
#include "tf32_consumer.cuh"
#include "tf32_shifted.cuh"
#include "tf32_store.cuh"

namespace ksmm::hopper {

template <class Tile>
struct Tf32Shared {
  Barrier full[Tile::stages], split[Tile::stages], empty[Tile::stages];
  int tile[Tile::stages];  // of which a stage is, where tiles are handed out in turn
};

struct Tf32Position {
  int i, plane_tile, batch_tile, row_tile;
};

// Neighbouring tiles differ in r, so that blocks that run together read the same X; then in j where sectors of X and Y
// are, so that the L2 cache sees whole lines of them.
template <class Tile>
__device__ inline Tf32Position position_of(const Tf32Task& task, int tile) {
  const auto next = [&](int tiles) {
    const int at = tile % tiles;
    tile /= tiles;
    return at;
  };
  constexpr bool sectors = Tile::access == Access::sectors;
  Tf32Position at;
  at.row_tile = next(task.row_tiles);
  if (sectors) at.plane_tile = next(task.plane_tiles);
  at.batch_tile = next(task.batch_tiles);
  if (!sectors) at.plane_tile = next(task.plane_tiles);
  at.i = tile;
  return at;
}

// The tile of this block that follows `tile`. In turn, whoever asks gets the next: blocks whose tiles share lines of X
// and Y are then never further apart than a tile takes. In a fixed order some fall behind from tile to tile (memory
// serves some multiprocessors better), until a line has left the L2 cache before the last of those that share it comes:
// with d = 64 and more such products took twice as long. Asked for before the tile is copied, the answer is there in
// time.
__device__ inline int ask_for_tile(const Tf32Task& task, int tile) {
  const int blocks = static_cast<int>(gridDim.x);
  return blocks + (task.halves.handed_out == nullptr ? tile : atomicAdd(task.halves.handed_out, 1));
}

// The tile of the ring's next stage.
template <class Tile>
__device__ inline int tile_of_stage(Tf32Shared<Tile>& shared, const Ring<Tile::stages>& ring) {
  shared.full[ring.slot].wait(ring.phase);
  return shared.tile[ring.slot];
}

// The number of a tile of W.
__device__ inline int weight_tile(const Tf32Task& task, const Tf32Position& at) {
  return (at.i * task.plane_tiles + at.plane_tile) * task.row_tiles + at.row_tile;
}

// Which tiles this kernel leaves out: W as halves those whose W is uneven, and the one that follows it all that its
// warps did not leave to it.
template <class Tile>
__device__ inline bool leaves_out(const Tf32Task& task, const Tf32Position& at, int tile) {
  if constexpr (Tile::in_halves) return __ldg(task.halves.uneven + weight_tile(task, at)) != 0;
  return task.halves.left != nullptr && __ldg(task.halves.left + tile) == 0;
}

// Whether there is anything to do for this block, all threads of which call it.
__device__ inline bool any_left(const Tf32Task& task) {
  bool found = false;
  for (int tile = blockIdx.x + threadIdx.x * gridDim.x; tile < task.tiles; tile += blockDim.x * gridDim.x)
    found |= __ldg(task.halves.left + tile) != 0;
  return __syncthreads_or(found);
}

template <class Tile>
__device__ inline void copy_x(const Tf32Task& task, const Tf32Position& at, int k, char* stage, Barrier& full) {
  const int n = at.batch_tile * Tile::batch, j = at.plane_tile * Tile::planes;
  if constexpr (Tile::access == Access::rows) {
    for (int box = 0; box < Tile::batch / 32; ++box)
      load(stage + box * (Tile::k * 128), task.x, full, Keep::normal, n + box * 32, j, k, at.i);
  } else if constexpr (Tile::access == Access::shifted) {
    copy_shifted<Tile>(task, at.i, j, n, k, stage, full);
  } else {
    for (int box = 0; box < Tile::planes * Tile::k / 32; ++box) {
      char* const to = stage + box * (Tile::batch * 128);
      if constexpr (Tile::access == Access::runs)
        load(to, task.x, full, Keep::normal, k * Tile::planes + box * 32, at.i, n);
      else
        load(to, task.x, full, Keep::normal, j, k + box * 4, at.i, n);
    }
  }
}

template <class Tile>
__device__ inline void copy_weight(const Tf32Task& task, const Tf32Position& at, int k, char* stage, Barrier& full) {
  if constexpr (Tile::in_halves) {
    const int64_t steps = (task.c + Tile::k - 1) / Tile::k, step = weight_tile(task, at) * steps + k / Tile::k;
    load_bytes(stage + Tile::x_bytes, task.halves.stages + step * Tile::weight_bytes, Tile::weight_bytes, full,
               Keep::last_out);
  } else {
    load(stage + Tile::x_bytes, task.weight, full, Keep::last_out, k, at.row_tile * Tile::rows,
         at.plane_tile * Tile::planes, at.i);
  }
}

template <class Tile>
__device__ inline void produce(const Tf32Task& task, char* stages, Tf32Shared<Tile>& shared) {
  Ring<Tile::stages> ring;
  for (int tile = blockIdx.x, asked = 0; tile < task.tiles; tile = Tile::in_turn ? asked : tile + gridDim.x) {
    if constexpr (Tile::in_turn) asked = ask_for_tile(task, tile);
    const Tf32Position at = position_of<Tile>(task, tile);
    if (leaves_out<Tile>(task, at, tile)) {
      if constexpr (Tile::in_turn) task.halves.left[tile] = ~0ull;  // those that multiply do not hear of it
      continue;
    }
    for (int k = 0; k < task.c; k += Tile::k, ring.advance()) {
      char* const stage = stages + ring.slot * Tile::stage_bytes;
      shared.empty[ring.slot].wait(ring.phase ^ 1);
      if constexpr (Tile::in_turn) shared.tile[ring.slot] = tile;
      shared.full[ring.slot].arrive_expecting(Tile::x_bytes + Tile::weight_bytes);
      copy_x<Tile>(task, at, k, stage, shared.full[ring.slot]);
      copy_weight<Tile>(task, at, k, stage, shared.full[ring.slot]);
    }
  }
  if constexpr (Tile::in_turn) {  // a stage of no tile: the end
    shared.empty[ring.slot].wait(ring.phase ^ 1);
    shared.tile[ring.slot] = task.tiles;
    shared.full[ring.slot].arrive();
  }
}

template <class Tile>
__device__ inline void split_weight(const Tf32Task& task, char* stages, Tf32Shared<Tile>& shared, int thread) {
  Ring<Tile::stages> ring;
  constexpr int chunks = Tile::weight_bytes / (Tile::in_parts ? 32 : 16);
  for (int tile = blockIdx.x; tile < task.tiles; tile += gridDim.x) {
    if (leaves_out<Tile>(task, position_of<Tile>(task, tile), tile)) continue;
    for (int k = 0; k < task.c; k += Tile::k, ring.advance()) {
      char* const weight = stages + ring.slot * Tile::stage_bytes + Tile::x_bytes;
      shared.full[ring.slot].wait(ring.phase);
      for (int chunk = thread; chunk < chunks; chunk += Tile::splitter_threads) {
        if constexpr (Tile::in_parts)
          split_chunk<Tile>(weight, chunk);
        else
          round_chunk(weight, chunk);
      }
      fence_for_engines();
      shared.split[ring.slot].arrive();
    }
  }
}

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
    consumer.drain(Tile::keeps_stage ? nullptr : &shared.empty[slot_before()]);
    const Tf32Place place = {at.i, at.row_tile * Tile::rows, at.plane_tile * Tile::planes + first_plane,
                             static_cast<int64_t>(at.batch_tile) * Tile::batch +
                                 (Tile::split ? 0 : consumer.warpgroup * Tile::warpgroup_batch)};
    if constexpr (Tile::in_halves) {
      leave(task, tile, consumer.any_dominated(task.c), consumer);
      scale_back<Tile>(consumer.sums,
                       task.halves.scales + (weight_tile(task, at) * Tile::planes + first_plane) * Tile::rows,
                       consumer.lane);
    }
    if (task.bias != nullptr) add_bias<Tile>(task, consumer.sums, place, consumer.lane);
    if constexpr (Tile::keeps_stage) {
      synchronize(consumer_barrier, consumer_threads);  // both warpgroups have read the stage
    } else {
      if (Tile::staged && consumer.lane == 0) wait_for_store_reads<0>();  // of the tile before
    }
    if constexpr (Tile::staged) {
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
      shared.empty[slot].init(consumer_threads / 32);
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
