// Two factors in one launch, in batch_first, as in fused_kernel.cuh: (1, b, c, d) · (a', b', c', 1). For features
// between the factors that are few, and for any number of features before and behind them.
//
// X streams past, beside the weight of its block. What comes out, rounded as in device memory, has a place of its own
// in shared memory, sorted by the d planes of the outer factor, whose weight streams past in the end, for all planes at
// a time: their sums wait in registers until whole sectors of Y can be written, by the copy engine, beside the products
// of others.
#pragma once

#include "../number.cuh"
#include "copy.cuh"
#include "fused_streamed_between.cuh"
#include "fused_streamed_store.cuh"
#include "gemm_epilogue.cuh"
#include "overlap.cuh"
#include "products.cuh"

namespace ksmm::hopper {

struct StreamedStages {
  Barrier full[streamed_most_slots], empty[streamed_most_slots];

  __device__ void init(int slots, int warpgroups) {
    for (int slot = 0; slot < slots; ++slot) full[slot].init(1), empty[slot].init(warpgroups);
  }
};

// The stages of both factors have the same place, and so has the outlet: what lies in it is of one of them at a time.
struct FusedStreamedShared {
  StreamedStages inner, outer;
  Barrier drained;  // of all that a tile has put there

  __device__ void init(const FusedStreamedTask& task, int warpgroups) {
    inner.init(task.inner_slots, warpgroups), outer.init(task.outer_slots, warpgroups), drained.init(warpgroups);
    publish_barriers();
  }
};
static_assert(sizeof(FusedStreamedShared) == streamed_barrier_bytes, "room for the barriers");

// Fetches all that a tile needs.
template <class Tile>
struct FusedStreamedFeeder {
  const FusedStreamedTask& task;
  FusedStreamedShared& shared;
  unsigned char* place;
  VariableRing inner, outer;

  __device__ void feed_inner(int n) {
    for (int i = 0; i < task.blocks; ++i)
      for (int box = 0; box < task.inner_boxes; ++box, inner.advance()) {
        StreamedStages& stages = shared.inner;
        stages.empty[inner.slot].wait(inner.phase ^ 1);
        stages.full[inner.slot].arrive_expecting(Tile::inner_slot);
        unsigned char* slot = place + inner.slot * Tile::inner_slot;
        load(slot, task.x, stages.full[inner.slot], task.x_keep, box * streamed_step, i, n);
        load(slot + Tile::box_bytes, task.inner, stages.full[inner.slot], Keep::last_out, box * streamed_step,
             Tile::first_k(i), 0);
      }
  }

  // Waits until what was last fetched into a slot of the inner factor has been read.
  __device__ void wait_for_inner(int slot) {
    shared.inner.empty[slot].wait(slot < inner.slot ? inner.phase : inner.phase ^ 1);
  }
  __device__ void feed_outer() {
    int cleared = 0;  // slots of the inner factor
    for (int r = 0; r < task.b; r += Tile::columns)
      for (int box = 0; box < task.outer_boxes; ++box, outer.advance()) {
        StreamedStages& stages = shared.outer;
        const int end = (outer.slot + 1) * Tile::outer_slot;
        for (; cleared < task.inner_slots && cleared * Tile::inner_slot < end; ++cleared) wait_for_inner(cleared);
        stages.empty[outer.slot].wait(outer.phase ^ 1);
        stages.full[outer.slot].arrive_expecting(Tile::outer_slot);
        load(place + outer.slot * Tile::outer_slot, task.outer, stages.full[outer.slot], Keep::last_out,
             box * streamed_step, r, 0);
      }
  }
};

// Adds the products of 64 n and COLUMNS columns over 16 k.
template <class T, int COLUMNS>
__device__ inline void multiply_streamed(float (&sums)[COLUMNS / 2], uint32_t rows, uint32_t columns, bool accumulate) {
  Products<T, COLUMNS>::template from_shared<false>(sums, describe(rows, Swizzle::bytes_64, 512),
                                                    describe(columns, Swizzle::bytes_64, 512), accumulate);
}

template <class T, class Tile>
struct FusedStreamedConsumer {
  const FusedStreamedTask& task;
  FusedStreamedShared& shared;
  // Barriers: of a warpgroup, the first; by which they take turns, the first; of all warpgroups.
  static constexpr int alone = 1, turns = alone + Tile::row_groups, together = turns + Tile::row_groups;
  uint32_t z, place;  // z: of the warpgroup's rows
  int warpgroup;
  VariableRing inner, outer;
  bool first_turn = true;

  // Warpgroups multiply by the outer factor in turns, so that one writes Y while another multiplies: together they
  // would wait for the matrix units first, and then for the way to Y. `last`: there is no turn after this round.
  __device__ void take_turn() {
    if (!first_turn || warpgroup > 0) synchronize(turns + warpgroup, 256);
    first_turn = false;
  }
  __device__ void pass_turn(bool last) {
    const int next = warpgroup + 1 == Tile::row_groups ? 0 : warpgroup + 1;
    if (!last || next > 0) arrive(turns + next, 256);
  }

  __device__ static void release(StreamedStages& stages, const VariableRing& ring) {
    if (threadIdx.x % 128 == 0) stages.empty[ring.last()].arrive();
  }
  // Commits the products of a stage, and gives the one before back; `box` counts those of the same sums.
  __device__ static void commit_stage(StreamedStages& stages, VariableRing& ring, int box) {
    commit_products();
    if (box > 0) {
      wait_for_products<1>();
      release(stages, ring);
    }
    ring.advance();
  }

  __device__ void multiply_inner() {
    StreamedBetween<T, Tile> between(task, z);
    for (int i = 0; i < task.blocks; ++i) {
      float sums[Tile::inner_columns / 2];
      fence_sums<Tile::inner_columns>(sums);
      int box = 0;
      do {
        shared.inner.full[inner.slot].wait(inner.phase);
        const uint32_t slot = place + inner.slot * Tile::inner_slot;
        const uint32_t x = slot + warpgroup * 64 * streamed_row, weight = slot + Tile::box_bytes;
        begin_products();
#pragma unroll
        for (int step = 0; step < 2; ++step)
          multiply_streamed<T, Tile::inner_columns>(sums, x + step * 32, weight + step * 32, box > 0 || step > 0);
        commit_stage(shared.inner, inner, box);
      } while (++box < task.inner_boxes);
      wait_for_products<0>();
      release(shared.inner, inner);
      fence_sums<Tile::inner_columns>(sums);
      between.put(sums, i);
    }
  }

  __device__ static void fence_planes(float (&sums)[Tile::j][Tile::columns / 2]) {
#pragma unroll
    for (int plane = 0; plane < Tile::j; ++plane) fence_sums<Tile::columns>(sums[plane]);
  }

  // n: the warp's first; last: of the block's tiles.
  __device__ void multiply_outer(int n, unsigned char* boxes, bool last) {
    StreamedOutlet<T, Tile> outlet{task, boxes, n};
    StreamedBias<T, Tile> bias;
    bias.read(task, 0);
    for (int first = 0; first < task.b; first += Tile::columns) {
      float sums[Tile::j][Tile::columns / 2];
      bias.start(sums, task.bias != nullptr);
      bias.read(task, first + Tile::columns);
      fence_planes(sums);
      take_turn();
      int box = 0;
      do {
        shared.outer.full[outer.slot].wait(outer.phase);
        const uint32_t weight = place + outer.slot * Tile::outer_slot;
        begin_products();
#pragma unroll
        for (int step = 0; step < 2; ++step)
#pragma unroll
          for (int plane = 0; plane < Tile::j; ++plane)
            multiply_streamed<T, Tile::columns>(sums[plane],
                                                z + (plane * task.outer_boxes + box) * Tile::box_bytes + step * 32,
                                                weight + plane * Tile::columns * streamed_row + step * 32, true);
        commit_stage(shared.outer, outer, box);
      } while (++box < task.outer_boxes);
      pass_turn(last && first + Tile::columns >= task.b);
      wait_for_products<0>();
      release(shared.outer, outer);
      fence_planes(sums);
      outlet.write(sums, first);
    }
    outlet.drain();
  }
};

template <class T, class Tile>
__global__ __launch_bounds__(Tile::threads,
                             1) void fused_streamed_kernel(const __grid_constant__ FusedStreamedTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  static_assert(registers_suffice<Tile::consumers, Tile::grown, Tile::threads - Tile::consumers, Tile::shrunk>);
  extern __shared__ __align__(1024) unsigned char z[];  // a period of the swizzle, and more
  unsigned char* place = z + Tile::j * task.outer_boxes * Tile::box_bytes;
  unsigned char* outlet = place + task.outer_slots * Tile::outer_slot;
  auto& shared =
      *reinterpret_cast<FusedStreamedShared*>(place + streamed_place_bytes<Tile>(task.inner_slots, task.outer_slots));
  if (threadIdx.x == 0) {
    shared.init(task, Tile::row_groups);
    prefetch_map(task.x), prefetch_map(task.inner), prefetch_map(task.outer);
  }
  __syncthreads();
  wait_for_kernels_before();
  const int64_t blocks = gridDim.x;
  const int warpgroup = warpgroup_of_block();
  if (warpgroup < Tile::row_groups) {
    grow_registers<Tile::grown>();
    const int warp = threadIdx.x / 32;
    unsigned char* boxes = outlet + warp * Tile::outlet_boxes * Tile::outlet_box;
    FusedStreamedConsumer<T, Tile> consumer{task,
                                            shared,
                                            shared_address(z) + warpgroup * 64 * streamed_row,
                                            shared_address(place),
                                            warpgroup,
                                            VariableRing{task.inner_slots},
                                            VariableRing{task.outer_slots}};
    for (int64_t tile = blockIdx.x; tile < task.tiles; tile += blocks) {
      consumer.multiply_inner();
      fence_for_engines();
      synchronize(consumer.together, Tile::consumers);  // all have written their Z, and read stages: there is an outlet
      consumer.multiply_outer(static_cast<int>(tile * Tile::n) + 16 * warp, boxes, tile + blocks >= task.tiles);
      fence_for_engines();
      synchronize(consumer.alone + warpgroup, 128);  // all four warps have read Z, and left the outlet
      if (threadIdx.x % 128 == 0) shared.drained.arrive();
    }
  } else {
    shrink_registers<Tile::shrunk>();
    if (threadIdx.x == Tile::consumers) {
      FusedStreamedFeeder<Tile> feeder{task, shared, place, VariableRing{task.inner_slots},
                                       VariableRing{task.outer_slots}};
      uint32_t phase = 1;
      for (int64_t tile = blockIdx.x; tile < task.tiles; tile += blocks, phase ^= 1) {
        shared.drained.wait(phase);
        feeder.feed_inner(static_cast<int>(tile * Tile::n));
        feeder.feed_outer();
      }
    }
  }
#endif
}

}  // namespace ksmm::hopper
