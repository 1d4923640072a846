// Products of many planes whose Y is batch_first with d > 1: X comes plane by plane, [n][i][j][k], and Y leaves as
// [n][i][r][j], in whole sectors. For 16-bit types.
//
// A cluster of eight blocks multiplies 16 or 24 planes at a time, each block two or three of them, tile by tile as the
// streamed gemm kernel does. Rounded sums stay in shared memory. When all planes of a tile are there, each block reads
// its share of the rows from all blocks (distributed shared memory), regroups eight planes by eight r in registers, and
// writes them, 16 bytes at a time, while the next tile is multiplied.
#pragma once

#include "exchange_write.cuh"

namespace ksmm::hopper {

template <class Tile>
struct ExchangeShared {
  Barrier full[Tile::stages], empty[Tile::stages];
  ExchangeBarriers sums;
  uint16_t bias[2][2][Tile::columns];  // of each warpgroup, of planes in turns

  __device__ void init() {
    for (int stage = 0; stage < Tile::stages; ++stage) full[stage].init(1), empty[stage].init(2);
    sums.init();
    publish_barriers();
  }
};

template <class Tile>
__device__ void feed_exchange(const ExchangeTask& task, ExchangeShared<Tile>& shared, unsigned char* x,
                              unsigned char* weight) {
  Ring<Tile::stages> ring;
  for (int tile = first_tile(); tile < task.gemm.tiles; tile += tile_stride()) {
    const ExchangePlace<Tile> place(task, tile);
    for (int plane = 0; plane < Tile::planes; ++plane) {
      const int j = place.j + static_cast<int>(rank_in_cluster()) * Tile::planes + plane;
      for (int step = 0; step < task.gemm.k_steps; ++step, ring.advance()) {
        Barrier& full = shared.full[ring.slot];
        shared.empty[ring.slot].wait(ring.phase ^ 1);
        full.arrive_expecting(Tile::x_bytes + Tile::weight_bytes);
        for (int block = 0; block < 2; ++block)
          load_box<false>(x + ring.slot * Tile::x_bytes + block * gemm_box, task.gemm.x, Keep::normal, full,
                          place.n + block * gemm_rows, step * gemm_step, place.i, j);
        load(weight + ring.slot * Tile::weight_bytes, task.gemm.weight, full, Keep::last_out, step * gemm_step, place.r,
             j, place.i);
      }
    }
  }
}

// The work of two warpgroups, of 64 n each.
template <class T, class Tile>
__device__ void multiply_exchange(const ExchangeTask& task, ExchangeShared<Tile>& shared, unsigned char* x,
                                  unsigned char* weight, uint32_t kept) {
  const int warpgroup = warpgroup_of_block(), thread = threadIdx.x % 128;
  float sums[Tile::columns / 2];
  Ring<Tile::stages> ring;
  Ring<exchange_buffers> buffer;
  BiasFetch<Tile::columns> fetch;
  int of_bias = 0;
  const auto fetch_of = [&](int tile, int plane) {
    const ExchangePlace<Tile> place(task, tile);
    fetch.read(task.gemm, place.r, place.i, place.j + static_cast<int>(rank_in_cluster()) * Tile::planes + plane);
  };
  const auto release = [&](int slot) {
    if (thread == 0) shared.empty[slot].arrive();
  };
  fetch_of(first_tile(), 0);
  fetch.write(task.gemm, shared.bias[warpgroup][0], 1 + warpgroup);
  for (int tile = first_tile(); tile < task.gemm.tiles; tile += tile_stride(), buffer.advance()) {
    for (int plane = 0; plane < Tile::planes; ++plane, of_bias ^= 1) {
      start_sums<T, Tile::columns>(sums, task.gemm.bias == nullptr ? nullptr : shared.bias[warpgroup][of_bias]);
      if (plane + 1 < Tile::planes)
        fetch_of(tile, plane + 1);
      else if (tile + tile_stride() < task.gemm.tiles)
        fetch_of(tile + tile_stride(), 0);
      int last_slot = 0, step = 0;
      do {  // once at least: a loop that may be left out makes the compiler serialise the products
        shared.full[ring.slot].wait(ring.phase);
        begin_products();
        multiply_stage<T, Tile::columns, false>(sums,
                                                shared_address(x + ring.slot * Tile::x_bytes + warpgroup * gemm_box),
                                                shared_address(weight + ring.slot * Tile::weight_bytes));
        commit_products();
        wait_for_products<1>();
        if (step > 0) release(last_slot);
        last_slot = ring.slot;
        ring.advance();
      } while (++step < task.gemm.k_steps);
      fetch.put(task.gemm, shared.bias[warpgroup][of_bias ^ 1]);  // of the next plane
      wait_for_products<0>();
      fence_sums<Tile::columns>(sums);
      release(last_slot);
      if (plane == 0) shared.sums.taken[buffer.slot].wait_for_cluster(buffer.phase ^ 1);
      keep_sums<T, Tile>(kept + buffer.slot * Tile::tile_bytes, plane, warpgroup * gemm_rows, sums);
      if (plane + 1 == Tile::planes || task.gemm.bias != nullptr) synchronize(1 + warpgroup, 128);
    }
    if (thread < exchange_cluster) shared.sums.ready[buffer.slot].publish_at(thread);
  }
}

template <class T, class Tile>
__global__ __launch_bounds__(Tile::threads, 1) void exchange_kernel(const __grid_constant__ ExchangeTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  static_assert(sizeof(ExchangeShared<Tile>) + 1024 <= Tile::slack, "barriers, bias and the alignment");
  extern __shared__ unsigned char unaligned[];
  unsigned char* x = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  unsigned char* weight = x + Tile::stages * Tile::x_bytes;
  unsigned char* kept = weight + Tile::stages * Tile::weight_bytes;
  auto& shared = *reinterpret_cast<ExchangeShared<Tile>*>(kept + Tile::sums_bytes);
  constexpr int feeder = exchange_multipliers + exchange_buffers * Tile::writers;
  if (threadIdx.x == 0) shared.init();
  if (threadIdx.x == 32) prefetch_map(task.gemm.x), prefetch_map(task.gemm.weight);
  __syncthreads();
  synchronize_cluster();
  wait_for_kernels_before();
  if (threadIdx.x < exchange_multipliers)
    multiply_exchange<T, Tile>(task, shared, x, weight, shared_address(kept));
  else if (threadIdx.x < feeder)
    write_exchanged<Tile>(task, shared.sums, shared_address(kept));
  else if (threadIdx.x == feeder)
    feed_exchange<Tile>(task, shared, x, weight);
  __syncwarp();
  synchronize_cluster();  // other blocks may still read from this one, and arrive at its barriers
#endif
}

}  // namespace ksmm::hopper
