// Two factors in one launch, in batch_first: (1, b, c, d) · (a', b', c', 1), what a Monarch layer is. Features between
// the factors never leave the chip.
//
// A block multiplies its rows of X by the inner factor and writes the sums, rounded as in device memory, to shared
// memory as the operand of the outer factor: one matrix for each of its d planes. Both weights stream past, shared by a
// cluster of two blocks; Y of all planes waits in registers, so that whole sectors are written.
#pragma once

#include "../number.cuh"
#include "copy.cuh"
#include "fused_tile.cuh"
#include "gemm_epilogue.cuh"
#include "overlap.cuh"
#include "products.cuh"

namespace ksmm::hopper {

struct FusedShared {
  Barrier full[fused_most_slots], empty[fused_most_slots];

  __device__ void init(int slots) {
    for (int slot = 0; slot < slots; ++slot) full[slot].init(1), empty[slot].init(2 * fused_cluster);
    publish_barriers();
  }
};

// A ring whose length is known when the kernel is launched.
struct FusedRing {
  int slots, slot = 0;
  uint32_t phase = 0;
  __device__ void advance() {
    if (++slot == slots) slot = 0, phase ^= 1;
  }
  __device__ int last() const { return slot == 0 ? slots - 1 : slot - 1; }
};

// 64 rows of the inner factor: those of all J planes that have 64 / J neighbouring k.
template <int J>
struct FusedGroup {
  int i, first;  // block of the inner factor; row of a plane within it
  __device__ FusedGroup(const FusedTask& task, int group)
      : i(group / task.groups_of_block), first(group % task.groups_of_block * (64 / J)) {}
};

template <class Tile>
struct FusedFeeder {
  const FusedTask& task;
  FusedShared& shared;
  unsigned char* stages;
  FusedRing ring;
  int rank;

  __device__ Barrier& next_stage(int bytes) {
    shared.empty[ring.slot].wait_for_cluster(ring.phase ^ 1);
    shared.full[ring.slot].arrive_expecting(bytes);
    return shared.full[ring.slot];
  }
  // The rows of both warpgroups, of which each block loads one half for both blocks; then the X of each. A group that
  // is not there is read as zeros.
  __device__ void feed_inner(int64_t n) {
    constexpr uint16_t everyone = (1 << fused_cluster) - 1;
    for (int group = 0; group < task.groups; group += 2)
      for (int step = 0; step < task.inner_steps; ++step) {
        const FusedGroup<Tile::j> mine(task, group + rank);
        load_for(everyone, stages + ring.slot * fused_slot + rank * (fused_slot / 2), task.inner,
                 next_stage(fused_slot), Keep::last_out, step * fused_step, mine.first, 0, mine.i);
        ring.advance();
        Barrier& full = next_stage(2 * Tile::plane_bytes);
        for (int of = 0; of < 2; ++of)
          load(stages + ring.slot * fused_slot + of * Tile::plane_bytes, task.x, full, Keep::normal, step * fused_step,
               FusedGroup<Tile::j>(task, group + of).i, static_cast<int>(n));
        ring.advance();
      }
  }
  __device__ void feed_outer() {
    constexpr uint16_t everyone = (1 << fused_cluster) - 1;
    for (int r = 0; r < task.b; r += 128)
      for (int plane = 0; plane < Tile::j; ++plane)
        for (int box = 0; box < task.boxes; ++box, ring.advance())
          load_for(everyone, stages + ring.slot * fused_slot + rank * (fused_slot / 2), task.outer,
                   next_stage(fused_slot), Keep::last_out, box * fused_step, r + rank * 64, plane);
  }
};

// Adds the products of 64 rows and N columns over the 64 k of a stage.
template <class T, int N>
__device__ inline void multiply_fused(float (&sums)[N / 2], uint32_t rows, uint32_t columns, bool accumulate) {
  begin_products();
#pragma unroll
  for (int step = 0; step < fused_step / 16; ++step)
    Products<T, N>::template from_shared<false>(sums, describe(rows + step * 32, Swizzle::bytes_128, 1024),
                                                describe(columns + step * 32, Swizzle::bytes_128, 1024),
                                                accumulate || step > 0);
  commit_products();
}

template <int N>
__device__ inline void fence_fused(float (&sums)[N / 2]) {
#pragma unroll
  for (int at = 0; at < N / 2; ++at) fence_register(sums[at]);
}

// Rounds the sums of a group and writes them to Z: of the fragment's rows, eight neighbours are k of one plane.
// Matrices beyond the block's rows go to `nowhere`.
template <class T, class Tile>
__device__ inline void put_between(const float (&sums)[Tile::n / 2], const FusedTask& task, int group, uint32_t z,
                                   uint32_t nowhere) {
  constexpr int octets = 8 / Tile::j;  // of a plane's rows in a group
  const FusedGroup<Tile::j> place(task, group);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, matrix = lane / 8;
  const int eighth = 2 * warp + matrix % 2, plane = eighth / octets, row = place.first + eighth % octets * 8;
  const int k = place.i * task.plane_rows + row;
  const bool there = group < task.groups && row < task.plane_rows;
  const uint32_t to = z + k / fused_step * Tile::box_bytes + plane * Tile::plane_bytes;
#pragma unroll
  for (int q = 0; q < Tile::n / 8; q += 2) {
    const int n = 8 * (q + matrix / 2) + lane % 8;
    uint32_t pairs[4];
#pragma unroll
    for (int at = 0; at < 4; ++at) pairs[at] = pack_pair<T>(sums[4 * q + 2 * at], sums[4 * q + 2 * at + 1]);
    store_matrices<true>(there ? to + n * fused_row + ((k / 8 % 8) ^ (n % 8)) * 16 : nowhere + lane * 16, pairs);
  }
}

// Rounds the sums of a plane of Y, with the bias of its two rows.
template <class T, class Tile>
__device__ inline void pack_fused(uint32_t (&packed)[Tile::n / 4], float (&sums)[Tile::n / 2], const FusedTask& task,
                                  int plane, int r) {
  fence_fused<Tile::n>(sums);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float bias = 0;
    if (task.bias != nullptr && r + 8 * h < task.b)
      bias = to_float<T>(__ldg(task.bias + static_cast<int64_t>(r + 8 * h) * Tile::j + plane));
#pragma unroll
    for (int q = 0; q < Tile::n / 8; ++q)
      packed[2 * q + h] = pack_pair<T>(sums[4 * q + 2 * h] + bias, sums[4 * q + 2 * h + 1] + bias);
  }
}

// packed[j][2 q + h] holds n = 8 q + 2 (lane % 4), and the next n in its upper half, of row r + 8 h. The J numbers of
// an (r, n) are neighbours in Y, and so are those of the next r, which another lane has.
template <class Tile>
__device__ inline void store_fused(const uint32_t (&packed)[Tile::j][Tile::n / 4], const FusedTask& task,
                                   int64_t first_n, int r) {
  const int64_t features = static_cast<int64_t>(task.b) * Tile::j;
#pragma unroll
  for (int q = 0; q < Tile::n / 8; ++q)
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int next = 0; next < 2; ++next) {
        const int64_t n = first_n + 8 * q + 2 * (threadIdx.x % 4) + next;
        if (n >= task.batch || r + 8 * h >= task.b) continue;
        uint32_t words[Tile::j / 2];
#pragma unroll
        for (int word = 0; word < Tile::j / 2; ++word)
          words[word] =
              __byte_perm(packed[2 * word][2 * q + h], packed[2 * word + 1][2 * q + h], next ? 0x7632 : 0x5410);
        uint16_t* to = task.y + n * features + static_cast<int64_t>(r + 8 * h) * Tile::j;
        if constexpr (Tile::j == 8)
          *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
        else if constexpr (Tile::j == 4)
          *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
        else
          *reinterpret_cast<uint32_t*>(to) = words[0];
      }
}

template <class T, class Tile>
struct FusedConsumer {
  const FusedTask& task;
  FusedShared& shared;
  uint32_t z, stages, nowhere;
  FusedRing ring;

  __device__ void release(int slot) {
    if (threadIdx.x % 128 < fused_cluster) shared.empty[slot].arrive_at(threadIdx.x % 128);
  }
  __device__ void multiply_inner() {
    const int warpgroup = threadIdx.x / 128;
    for (int group = warpgroup; group < task.groups + warpgroup; group += 2) {
      float sums[Tile::n / 2];
      fence_fused<Tile::n>(sums);
      int step = 0;
      do {
        shared.full[ring.slot].wait(ring.phase);
        const uint32_t rows = stages + ring.slot * fused_slot + warpgroup * (fused_slot / 2);
        ring.advance();
        shared.full[ring.slot].wait(ring.phase);
        multiply_fused<T, Tile::n>(sums, rows, stages + ring.slot * fused_slot + warpgroup * Tile::plane_bytes,
                                   step > 0);
        wait_for_products<0>();
        release(ring.last()), release(ring.slot);
        ring.advance();
      } while (++step < task.inner_steps);
      fence_fused<Tile::n>(sums);
      put_between<T, Tile>(sums, task, group, z, nowhere);
    }
  }
  // The products of one plane of 64 r. `ready` runs once the products before are complete, while these are under way.
  template <class Ready>
  __device__ void multiply_plane(float (&sums)[Tile::n / 2], int plane, Ready ready) {
    int box = 0;
    do {  // once at least: a loop that may be left out makes the compiler serialise the products
      shared.full[ring.slot].wait(ring.phase);
      multiply_fused<T, Tile::n>(sums, stages + ring.slot * fused_slot + threadIdx.x / 128 * (fused_slot / 2),
                                 z + box * Tile::box_bytes + plane * Tile::plane_bytes, box > 0);
      wait_for_products<1>();
      if (box == 0)
        ready();
      else
        release(ring.last());
      ring.advance();
    } while (++box < task.boxes);
  }
  __device__ void multiply_outer(int64_t n) {
    const int own = static_cast<int>(threadIdx.x / 128 * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4);
    for (int r = 0; r < task.b; r += 128) {
      float sums[2][Tile::n / 2];
      uint32_t packed[Tile::j][Tile::n / 4];
#pragma unroll
      for (int plane = 0; plane < Tile::j; ++plane) {
        fence_fused<Tile::n>(sums[plane % 2]);
        multiply_plane(sums[plane % 2], plane, [&] {
          if (plane == 0) return;
          release(ring.last());
          pack_fused<T, Tile>(packed[plane > 0 ? plane - 1 : 0], sums[(plane + 1) % 2], task, plane - 1, r + own);
        });
      }
      wait_for_products<0>();
      release(ring.last());
      pack_fused<T, Tile>(packed[Tile::j - 1], sums[(Tile::j - 1) % 2], task, Tile::j - 1, r + own);
      store_fused<Tile>(packed, task, n, r + own);
    }
  }
};

template <class T, class Tile>
__global__ __launch_bounds__(Tile::threads, 1) void fused_kernel(const __grid_constant__ FusedTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  static_assert(registers_suffice<Tile::consumers, 232, Tile::threads - Tile::consumers, 40>);
  extern __shared__ unsigned char unaligned[];
  unsigned char* z = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  unsigned char* stages = z + task.boxes * Tile::box_bytes;
  unsigned char* nowhere = stages + task.slots * fused_slot;  // 512 bytes, then the barriers
  auto& shared = *reinterpret_cast<FusedShared*>(nowhere + 512);
  const int rank = static_cast<int>(rank_in_cluster());
  if (threadIdx.x == 0) {
    shared.init(task.slots);
    prefetch_map(task.x), prefetch_map(task.inner), prefetch_map(task.outer);
  }
  // beyond c, where nothing is written, and W is zero
  for (int at = threadIdx.x; at < task.boxes * Tile::box_bytes / 16; at += Tile::threads)
    reinterpret_cast<uint4*>(z)[at] = make_uint4(0, 0, 0, 0);
  fence_for_engines();
  __syncthreads();
  synchronize_cluster();
  wait_for_kernels_before();
  const int64_t clusters = gridDim.x / fused_cluster;
  const auto first_n = [&](int64_t tile) { return (tile * fused_cluster + rank) * Tile::n; };
  if (threadIdx.x < Tile::consumers) {
    grow_registers<232>();
    FusedConsumer<T, Tile> consumer{
        task, shared, shared_address(z), shared_address(stages), shared_address(nowhere), FusedRing{task.slots}};
    for (int64_t tile = blockIdx.x / fused_cluster; tile < task.tiles; tile += clusters) {
      synchronize(1, Tile::consumers);  // both have read the last tile's Z
      consumer.multiply_inner();
      fence_for_engines();
      synchronize(1, Tile::consumers);
      consumer.multiply_outer(first_n(tile));
    }
  } else {
    shrink_registers<40>();
    if (threadIdx.x == Tile::consumers) {
      FusedFeeder<Tile> feeder{task, shared, stages, FusedRing{task.slots}, rank};
      for (int64_t tile = blockIdx.x / fused_cluster; tile < task.tiles; tile += clusters) {
        feeder.feed_inner(first_n(tile));
        feeder.feed_outer();
      }
    }
  }
  __syncwarp();
  synchronize_cluster();  // the other block may still load into this one, and arrive at its barriers
#endif
}

}  // namespace ksmm::hopper
