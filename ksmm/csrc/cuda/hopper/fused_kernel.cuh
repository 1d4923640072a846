// Two factors in one launch, in batch_first: (1, b, c, d) · (a', b', c', 1), what a Monarch layer is. Features between
// the factors never leave the chip.
//
// A block keeps its rows of X in shared memory and multiplies them by the blocks of the inner factor; the sums of a
// block, rounded as in device memory, take the place of its X, as the operand of the outer factor: d planes of them.
// Both weights stream past. Y of all planes waits in registers, so that whole
// sectors are written.
#pragma once

#include "../number.cuh"
#include "copy.cuh"
#include "fused_store.cuh"
#include "gemm_epilogue.cuh"
#include "overlap.cuh"
#include "products.cuh"

namespace ksmm::hopper {

struct FusedShared {
  Barrier full[fused_most_slots], empty[fused_most_slots];
  Barrier x_full[fused_most_boxes], x_empty;

  __device__ void init(int slots, int boxes, int warpgroups) {
    for (int slot = 0; slot < slots; ++slot) full[slot].init(1), empty[slot].init(warpgroups);
    for (int box = 0; box < boxes; ++box) x_full[box].init(1);
    x_empty.init(warpgroups);
    publish_barriers();
  }
};

// Fetches both weights.
template <class Tile>
struct FusedFeeder {
  const FusedTask& task;
  FusedShared& shared;
  unsigned char* stages;
  VariableRing ring;

  template <class... Coordinates>
  __device__ void load_stage(const CUtensorMap& map, int rows, Coordinates... coordinates) {
    Barrier& full = shared.full[ring.slot];
    shared.empty[ring.slot].wait(ring.phase ^ 1);
    full.arrive_expecting(rows * fused_row);
    load(stages + ring.slot * Tile::slot_bytes, map, full, Keep::last_out, coordinates...);
    ring.advance();
  }
  __device__ void feed() {
    for (int i = 0; i < task.blocks; ++i)
      for (int box = 0; box < task.inner_boxes; ++box) load_stage(task.inner, Tile::b, box * fused_step, 0, 0, i);
    for (int r = 0; r < task.b; r += Tile::outer_rows)
      for (int plane = 0; plane < Tile::j; ++plane)
        for (int box = 0; box < task.outer_boxes; ++box)
          load_stage(task.outer, Tile::outer_rows, box * fused_step, r, plane);
  }
};

// Fetches the rows of X of a tile, once Z of the last one has been read.
template <class Tile>
__device__ inline void fetch_rows(const FusedTask& task, FusedShared& shared, unsigned char* z, int64_t n,
                                  uint32_t phase) {
  shared.x_empty.wait(phase ^ 1);
  for (int i = 0, at = 0; i < task.blocks; ++i)
    for (int box = 0; box < task.inner_boxes; ++box, ++at) {
      shared.x_full[at].arrive_expecting(Tile::box_bytes);
      load(z + at * Tile::box_bytes, task.x, shared.x_full[at], Keep::first_out, box * fused_step, i,
           static_cast<int>(n));
    }
}

// Adds the products of 64 n and COLUMNS columns over 16 k.
template <class T, int COLUMNS>
__device__ inline void multiply_segment(float (&sums)[COLUMNS / 2], uint32_t rows, uint32_t columns, bool accumulate) {
  Products<T, COLUMNS>::template from_shared<false>(sums, describe(rows, Swizzle::bytes_128, 1024),
                                                    describe(columns, Swizzle::bytes_128, 1024), accumulate);
}

template <class T, class Tile>
struct FusedConsumer {
  const FusedTask& task;
  FusedShared& shared;
  uint32_t z, stages;  // z: of the warpgroup's rows
  int warpgroup, split;
  VariableRing ring;

  __device__ uint32_t stage() const { return stages + ring.slot * Tile::slot_bytes; }
  __device__ void release(int slot) {
    if (threadIdx.x % 128 == 0) shared.empty[slot].arrive();
  }
  // Where 16 k of a plane of Z begin.
  __device__ uint32_t segment(int plane, int s) const {
    const int at = (((s >> task.shift) * Tile::j + plane) << task.shift) + (s & ((1 << task.shift) - 1));
    return z + at / 4 * Tile::box_bytes + at % 4 * 32;
  }

  // Rounds the sums of block i, 8 k of a plane for each 8 columns, and writes them to Z.
  __device__ void put_between(const float (&sums)[Tile::b / 2], int i) {
    constexpr int octets = Tile::b / Tile::j / 8;  // of a plane
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, matrix = lane / 8;
    const int row = 16 * warp + 8 * (matrix % 2) + lane % 8;
#pragma unroll
    for (int q = 0; q < Tile::b / 8; q += 2) {
      uint32_t pairs[4];
#pragma unroll
      for (int at = 0; at < 4; ++at) pairs[at] = pack_pair<T>(sums[4 * q + 2 * at], sums[4 * q + 2 * at + 1]);
      const int own = q + matrix / 2, plane = own / octets, octet = i * octets + own % octets;
      const uint32_t to = segment(plane, octet / 2);
      const uint32_t chunk = (to - z) / 16 % 8 + octet % 2;
      store_matrices<false>((to & ~127u) + row * fused_row + (chunk ^ (row % 8)) * 16, pairs);
    }
  }

  __device__ void multiply_inner(uint32_t phase) {
    for (int i = 0, at = 0; i < task.blocks; ++i) {
      if (i % Tile::splits != split) {  // another warpgroup's: slots are given back in turn all the same
        for (int box = 0; box < task.inner_boxes; ++box, ++at, ring.advance()) {
          shared.full[ring.slot].wait(ring.phase);
          synchronize(2 + warpgroup, 128);  // no products keep the warps together: none must miss a phase
          release(ring.slot);
        }
        continue;
      }
      float sums[Tile::b / 2];
      fence_sums<Tile::b>(sums);
      int box = 0;
      do {
        shared.x_full[at].wait(phase);
        shared.full[ring.slot].wait(ring.phase);
        begin_products();
#pragma unroll
        for (int step = 0; step < fused_step / 16; ++step)
          multiply_segment<T, Tile::b>(sums, z + at * Tile::box_bytes + step * 32, stage() + step * 32,
                                       box > 0 || step > 0);
        commit_products();
        wait_for_products<0>();
        release(ring.slot);
        ring.advance(), ++at;
      } while (++box < task.inner_boxes);
      fence_sums<Tile::b>(sums);
      synchronize(2 + warpgroup, 128);  // all four warps are done with this X
      put_between(sums, i);
    }
  }

  // Adds the products of one plane of COLUMNS r.
  __device__ void multiply_plane(float (&sums)[Tile::columns / 2], int plane) {
    fence_sums<Tile::columns>(sums);
    int s = 0;
    do {
      shared.full[ring.slot].wait(ring.phase);
      const uint32_t columns = stage() + split * Tile::columns * fused_row;
      begin_products();
      if (s + 4 <= task.segments) {
#pragma unroll
        for (int step = 0; step < 4; ++step)
          multiply_segment<T, Tile::columns>(sums, segment(plane, s + step), columns + step * 32, true);
        s += 4;
      } else {
        do {
          multiply_segment<T, Tile::columns>(sums, segment(plane, s), columns + s % 4 * 32, true);
        } while (++s < task.segments);
      }
      commit_products();
      if (s > 4) {
        wait_for_products<1>();
        release(ring.last());
      }
      ring.advance();
    } while (s < task.segments);
    wait_for_products<0>();
    release(ring.last());
    fence_sums<Tile::columns>(sums);
  }

  __device__ void multiply_outer(int64_t n) {
    const int lane = threadIdx.x % 32;
    const int64_t row = n + threadIdx.x / 32 % 4 * 16 + lane / 4;
    FusedBias<T, Tile> bias;
    bias.read(task, 0, split * Tile::columns);
    for (int first = 0; first < task.b; first += Tile::outer_rows) {
      uint32_t packed[Tile::j][Tile::columns / 4];
      const int r = first + split * Tile::columns;
#pragma unroll
      for (int plane = 0; plane < Tile::j; ++plane) {
        float sums[Tile::columns / 2];
        bias.start(sums);
        bias.read(task, (plane + 1) % Tile::j, plane + 1 < Tile::j ? r : r + Tile::outer_rows);
        multiply_plane(sums, plane);
        pack_plane<T, Tile>(packed[plane], sums);
      }
      if (first + Tile::outer_rows >= task.b && threadIdx.x % 128 == 0) shared.x_empty.arrive();
      store_planes<Tile>(packed, task, row, r);
    }
  }
};

template <class T, class Tile>
__global__ __launch_bounds__(Tile::threads, 1) void fused_kernel(const __grid_constant__ FusedTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  static_assert(registers_suffice<Tile::consumers, Tile::grown, Tile::threads - Tile::consumers, Tile::shrunk>);
  extern __shared__ unsigned char unaligned[];
  unsigned char* z = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  const int boxes = task.blocks * task.inner_boxes;
  unsigned char* stages = z + boxes * Tile::box_bytes;
  auto& shared = *reinterpret_cast<FusedShared*>(stages + task.slots * Tile::slot_bytes);
  if (threadIdx.x == 0) {
    shared.init(task.slots, boxes, Tile::warpgroups);
    prefetch_map(task.x), prefetch_map(task.inner), prefetch_map(task.outer);
  }
  __syncthreads();
  wait_for_kernels_before();
  const int64_t blocks = gridDim.x;
  uint32_t phase = 0;  // of X
  if (threadIdx.x < Tile::consumers) {
    grow_registers<Tile::grown>();
    const int warpgroup = threadIdx.x / 128, group = warpgroup / Tile::splits;
    FusedConsumer<T, Tile> consumer{task,
                                    shared,
                                    shared_address(z) + group * 64 * fused_row,
                                    shared_address(stages),
                                    warpgroup,
                                    warpgroup % Tile::splits,
                                    VariableRing{task.slots}};
    for (int64_t tile = blockIdx.x; tile < task.tiles; tile += blocks, phase ^= 1) {
      consumer.multiply_inner(phase);
      fence_for_engines();
      if constexpr (Tile::splits > 1)
        synchronize(1, Tile::consumers);
      else
        synchronize(2 + warpgroup, 128);
      consumer.multiply_outer(tile * Tile::n + group * 64);
    }
  } else {
    shrink_registers<Tile::shrunk>();
    if (threadIdx.x == Tile::consumers) {
      FusedFeeder<Tile> feeder{task, shared, stages, VariableRing{task.slots}};
      for (int64_t tile = blockIdx.x; tile < task.tiles; tile += blocks) feeder.feed();
    } else if (threadIdx.x == Tile::consumers + 32) {
      for (int64_t tile = blockIdx.x; tile < task.tiles; tile += blocks, phase ^= 1)
        fetch_rows<Tile>(task, shared, z, tile * Tile::n, phase);
    }
  }
#endif
}

}  // namespace ksmm::hopper
