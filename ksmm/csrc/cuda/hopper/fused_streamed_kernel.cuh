// Two factors in one launch, in batch_first, as in fused_kernel.cuh: (1, b, c, d) · (a', b', c', 1). For features
// between the factors that are few, and for any number of features before and behind them.
//
// X streams past, beside the weight of its block. What comes out, rounded as in device memory, has a place of its own
// in shared memory, sorted by the d planes of the outer factor, whose weight streams past in the end, for all planes at
// a time: their sums wait in registers until whole rows of Y can be written.
#pragma once

#include "../number.cuh"
#include "copy.cuh"
#include "fused_streamed_between.cuh"
#include "fused_streamed_store.cuh"
#include "gemm_epilogue.cuh"
#include "overlap.cuh"
#include "products.cuh"

namespace ksmm::hopper {

struct FusedStreamedShared {
  Barrier full[streamed_most_slots], empty[streamed_most_slots];

  __device__ void init(int slots, int warpgroups) {
    for (int slot = 0; slot < slots; ++slot) full[slot].init(1), empty[slot].init(warpgroups);
    publish_barriers();
  }
};
static_assert(sizeof(FusedStreamedShared) <= streamed_extra_bytes - 512, "room for the barriers");

// Fetches all that a tile needs.
template <class Tile>
struct FusedStreamedFeeder {
  const FusedStreamedTask& task;
  FusedStreamedShared& shared;
  unsigned char* stages;
  VariableRing ring;

  __device__ unsigned char* next_slot(uint32_t bytes) {
    shared.empty[ring.slot].wait(ring.phase ^ 1);
    shared.full[ring.slot].arrive_expecting(bytes);
    return stages + ring.slot * Tile::slot_bytes;
  }
  __device__ void feed(int n) {
    const Keep keep = task.x_stays ? Keep::normal : Keep::first_out;
    for (int i = 0; i < task.blocks; ++i)
      for (int box = 0; box < task.inner_boxes; ++box, ring.advance()) {
        unsigned char* slot = next_slot(Tile::box_bytes + Tile::inner_bytes);
        load(slot, task.x, shared.full[ring.slot], keep, box * streamed_step, i, n);
        load(slot + Tile::box_bytes, task.inner, shared.full[ring.slot], Keep::last_out, box * streamed_step,
             Tile::first_k(i), 0);
      }
    for (int r = 0; r < task.b; r += Tile::columns)
      for (int box = 0; box < task.outer_boxes; ++box, ring.advance())
        load(next_slot(Tile::outer_bytes), task.outer, shared.full[ring.slot], Keep::last_out, box * streamed_step, r,
             0);
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
  static constexpr int turns = 1 + Tile::row_groups;  // the first of the barriers by which they take turns
  uint32_t z, stages;                                 // z: of the warpgroup's rows
  int warpgroup;
  VariableRing ring;
  bool first_turn = true;

  // Warpgroups multiply by the outer factor in turns, so that one writes Y while another multiplies: together they
  // would wait for the matrix units first, and then for the way to Y. `last`: there is no turn after this round.
  __device__ void take_turn() {
    if (!first_turn || warpgroup > 0) synchronize(turns + warpgroup, 256);
    first_turn = false;
  }
  __device__ void pass_turn(bool last) {
    const int next = warpgroup + 1 == Tile::row_groups ? 0 : warpgroup + 1;
    if (!last || next > 0) asm volatile("bar.arrive %0, 256;" ::"r"(turns + next) : "memory");
  }

  __device__ uint32_t stage() const { return stages + ring.slot * Tile::slot_bytes; }
  __device__ void release() {
    if (threadIdx.x % 128 == 0) shared.empty[ring.last()].arrive();
  }
  // Commits the products of a stage, and gives the one before back; `box` counts those of the same sums.
  __device__ void commit_stage(int box) {
    commit_products();
    if (box > 0) {
      wait_for_products<1>();
      release();
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
        shared.full[ring.slot].wait(ring.phase);
        const uint32_t x = stage() + warpgroup * 64 * streamed_row, weight = stage() + Tile::box_bytes;
        begin_products();
#pragma unroll
        for (int step = 0; step < 2; ++step)
          multiply_streamed<T, Tile::inner_columns>(sums, x + step * 32, weight + step * 32, box > 0 || step > 0);
        commit_stage(box);
      } while (++box < task.inner_boxes);
      wait_for_products<0>();
      release();
      fence_sums<Tile::inner_columns>(sums);
      between.put(sums, i);
    }
  }

  __device__ static void fence_planes(float (&sums)[Tile::j][Tile::columns / 2]) {
#pragma unroll
    for (int plane = 0; plane < Tile::j; ++plane) fence_sums<Tile::columns>(sums[plane]);
  }

  // n: the warp's first; last: of the block's tiles.
  __device__ void multiply_outer(int64_t n, uint32_t own_outlet, bool last) {
    const StreamedOutlet<T, Tile> outlet(task, own_outlet, n);
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
        shared.full[ring.slot].wait(ring.phase);
        begin_products();
#pragma unroll
        for (int step = 0; step < 2; ++step)
#pragma unroll
          for (int plane = 0; plane < Tile::j; ++plane)
            multiply_streamed<T, Tile::columns>(sums[plane],
                                                z + (plane * task.outer_boxes + box) * Tile::box_bytes + step * 32,
                                                stage() + plane * Tile::columns * streamed_row + step * 32, true);
        commit_stage(box);
      } while (++box < task.outer_boxes);
      pass_turn(last && first + Tile::columns >= task.b);
      wait_for_products<0>();
      release();
      fence_planes(sums);
      outlet.write(sums, first, task.b);
    }
  }
};

template <class T, class Tile>
__global__ __launch_bounds__(Tile::threads,
                             1) void fused_streamed_kernel(const __grid_constant__ FusedStreamedTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  static_assert(registers_suffice<Tile::consumers, Tile::grown, Tile::threads - Tile::consumers, Tile::shrunk>);
  extern __shared__ unsigned char unaligned[];
  unsigned char* z = unaligned + (512 - shared_address(unaligned) % 512) % 512;
  unsigned char* stages = z + Tile::j * task.outer_boxes * Tile::box_bytes;
  unsigned char* outlet = stages + task.slots * Tile::slot_bytes;
  auto& shared = *reinterpret_cast<FusedStreamedShared*>(outlet + Tile::outlet_bytes);
  if (threadIdx.x == 0) {
    shared.init(task.slots, Tile::row_groups);
    prefetch_map(task.x), prefetch_map(task.inner), prefetch_map(task.outer);
  }
  __syncthreads();
  wait_for_kernels_before();
  const int64_t blocks = gridDim.x;
  const int warpgroup = warpgroup_of_block();
  if (warpgroup < Tile::row_groups) {
    grow_registers<Tile::grown>();
    const int warp = threadIdx.x / 32;
    const uint32_t own_outlet = shared_address(outlet) + warp * 8 * Tile::outlet_row;
    FusedStreamedConsumer<T, Tile> consumer{task,
                                            shared,
                                            shared_address(z) + warpgroup * 64 * streamed_row,
                                            shared_address(stages),
                                            warpgroup,
                                            VariableRing{task.slots}};
    for (int64_t tile = blockIdx.x; tile < task.tiles; tile += blocks) {
      consumer.multiply_inner();
      fence_for_engines();
      synchronize(1 + warpgroup, 128);  // all four warps have written their Z
      consumer.multiply_outer(tile * Tile::n + 16 * warp, own_outlet, tile + blocks >= task.tiles);
      synchronize(1 + warpgroup, 128);  // and read it
    }
  } else {
    shrink_registers<Tile::shrunk>();
    if (threadIdx.x == Tile::consumers) {
      FusedStreamedFeeder<Tile> feeder{task, shared, stages, VariableRing{task.slots}};
      for (int64_t tile = blockIdx.x; tile < task.tiles; tile += blocks) feeder.feed(static_cast<int>(tile * Tile::n));
    }
  }
#endif
}

}  // namespace ksmm::hopper
