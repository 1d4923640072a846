// Products of many planes with X and Y in batch_first, d a multiple of 16: X is read as it is, and regrouped by plane
// on its way through a cluster of eight blocks, as Y is on its way out (exchange_kernel.cuh). For 16-bit types.
//
// Each block fetches its eight of the 64 n, whose sectors have 16 planes. A thread regroups eight n by eight planes of
// a k in registers, and sends the 16 bytes of each plane to the block that multiplies it. In an operand the k of eight
// n follow each other, so that neighbouring lanes write neighbouring bytes.
#pragma once

#include "exchange_write.cuh"

namespace ksmm::hopper {

template <class Tile>
struct RegroupShared {
  Barrier raw_full[Tile::raws], raw_empty[Tile::raws];
  Barrier full[Tile::operands];  // 64 n by 64 k of the block's planes: bytes that all blocks send
  Barrier free[Tile::operands];  // whether all blocks have multiplied theirs
  Barrier weight_full[Tile::weights], weight_empty[Tile::weights];
  ExchangeBarriers sums;
  uint16_t bias[2][2][Tile::columns];  // of each warpgroup, of tiles in turns

  __device__ void init() {
    for (int slot = 0; slot < Tile::raws; ++slot) raw_full[slot].init(1), raw_empty[slot].init(1);
    for (int slot = 0; slot < Tile::operands; ++slot) {
      full[slot].init(1), free[slot].init(2 * exchange_cluster);
      full[slot].arrive_expecting(Tile::operand_bytes);
    }
    for (int slot = 0; slot < Tile::weights; ++slot) weight_full[slot].init(1), weight_empty[slot].init(2);
    sums.init();
    publish_barriers();
  }
};

template <class Tile>
__device__ void feed_raw(const ExchangeTask& task, RegroupShared<Tile>& shared, unsigned char* raw) {
  Ring<Tile::raws> ring;
  for (int tile = first_tile(); tile < task.gemm.tiles; tile += tile_stride()) {
    const ExchangePlace<Tile> place(task, tile);
    const int n = place.n + static_cast<int>(rank_in_cluster()) * Tile::own_rows;
    for (int step = 0; step < task.gemm.k_steps; ++step, ring.advance()) {
      shared.raw_empty[ring.slot].wait(ring.phase ^ 1);
      shared.raw_full[ring.slot].arrive_expecting(Tile::raw_bytes);
      load(raw + ring.slot * Tile::raw_bytes, task.gemm.x, shared.raw_full[ring.slot], Keep::normal, place.j,
           step * gemm_step, place.i, n);
    }
  }
}

template <class Tile>
__device__ void feed_weight(const ExchangeTask& task, RegroupShared<Tile>& shared, unsigned char* weight) {
  Ring<Tile::weights> ring;
  for (int tile = first_tile(); tile < task.gemm.tiles; tile += tile_stride()) {
    const ExchangePlace<Tile> place(task, tile);
    const int j = place.j + static_cast<int>(rank_in_cluster()) * Tile::planes;
    for (int step = 0; step < task.gemm.k_steps; ++step, ring.advance()) {
      Barrier& full = shared.weight_full[ring.slot];
      shared.weight_empty[ring.slot].wait(ring.phase ^ 1);
      full.arrive_expecting(Tile::weight_bytes);
      for (int plane = 0; plane < Tile::planes; ++plane)
        load(weight + ring.slot * Tile::weight_bytes + plane * Tile::columns * 128, task.gemm.weight, full,
             Keep::last_out, step * gemm_step, place.r, j + plane, place.i);
    }
  }
}

// Offsets in bytes. What a block fetches is [n][k][j], eight n by 64 k by 16 j, of which `part` is a half.
__host__ __device__ inline uint32_t place_of_raw(int n, int k, int part) {
  return (n * gemm_step + k) * 32 + part * 16;
}
// An operand is [plane of the block][n / 8][k][n % 8]: what a block sends of its eight n is contiguous.
constexpr int bytes_of_eight_rows = 8 * gemm_step * 2;
__host__ __device__ inline uint32_t place_of_operand(int plane, uint32_t sender, int k) {
  return plane * gemm_box + sender * bytes_of_eight_rows + k * 16;
}

// A thread takes one k, and eight of the planes.
template <class Tile>
__device__ void regroup(const ExchangeTask& task, RegroupShared<Tile>& shared, uint32_t raw, uint32_t operand,
                        int thread) {
  const int k = thread / 2, part = thread % 2;
  const uint32_t rank = rank_in_cluster();
  Ring<Tile::raws> ring;
  Ring<Tile::operands> to;
  for (int tile = first_tile(); tile < task.gemm.tiles; tile += tile_stride()) {
    for (int step = 0; step < task.gemm.k_steps; ++step, ring.advance(), to.advance()) {
      uint32_t rows[8][4];
      shared.raw_full[ring.slot].wait(ring.phase);
#pragma unroll
      for (int n = 0; n < 8; ++n) load_own(raw + ring.slot * Tile::raw_bytes + place_of_raw(n, k, part), rows[n]);
      shared.free[to.slot].wait_for_cluster(to.phase ^ 1);
#pragma unroll
      for (int plane = 0; plane < 8; ++plane)
        send_to(part * 4 + plane / 2, operand + to.slot * Tile::operand_bytes + place_of_operand(plane % 2, rank, k),
                column_of(rows, plane), shared.full[to.slot]);
      synchronize(5, Tile::regroupers);
      if (thread == 0) shared.raw_empty[ring.slot].arrive();
    }
  }
}

// Adds the products of a step, of an operand as the regroupers leave it.
template <class T, int COLUMNS>
__device__ inline void multiply_regrouped(float (&sums)[COLUMNS / 2], uint32_t x, uint32_t weight) {
#pragma unroll
  for (int k = 0; k < gemm_step; k += 16)
    Products<T, COLUMNS>::template from_shared<true>(sums,
                                                     describe(x + k * 16, Swizzle::none, bytes_of_eight_rows, 8 * 16),
                                                     describe(weight + k * 2, Swizzle::bytes_128, 1024), true);
}

// The work of two warpgroups, of a plane each.
template <class T, class Tile>
__device__ void multiply_planes(const ExchangeTask& task, RegroupShared<Tile>& shared, unsigned char* operand,
                                unsigned char* weight, uint32_t kept) {
  const int warpgroup = warpgroup_of_block(), thread = threadIdx.x % 128;
  float sums[Tile::columns / 2];
  Ring<Tile::operands> ring;
  Ring<Tile::weights> of_weight;
  Ring<exchange_buffers> buffer;
  BiasFetch<Tile::columns> fetch;
  const auto fetch_of = [&](int tile) {
    const ExchangePlace<Tile> place(task, tile);
    fetch.read(task.gemm, place.r, place.i, place.j + static_cast<int>(rank_in_cluster()) * Tile::planes + warpgroup);
  };
  const auto release = [&](int slot, int weight_slot) {
    if (thread < exchange_cluster) shared.free[slot].arrive_at(thread);
    if (thread == exchange_cluster) shared.weight_empty[weight_slot].arrive();
  };
  fetch_of(first_tile());
  fetch.write(task.gemm, shared.bias[warpgroup][0], 1 + warpgroup);
  for (int tile = first_tile(); tile < task.gemm.tiles; tile += tile_stride(), buffer.advance()) {
    start_sums<T, Tile::columns>(sums, task.gemm.bias == nullptr ? nullptr : shared.bias[warpgroup][buffer.slot]);
    if (tile + tile_stride() < task.gemm.tiles) fetch_of(tile + tile_stride());
    int last_slot = 0, last_weight = 0, step = 0;
    do {
      shared.weight_full[of_weight.slot].wait(of_weight.phase);
      shared.full[ring.slot].wait_for_cluster(ring.phase);
      // nobody sends again before both warpgroups have given this slot back
      if (threadIdx.x == 0) shared.full[ring.slot].arrive_expecting(Tile::operand_bytes);
      fence_for_engines();  // the matrix units read what threads have written
      begin_products();
      multiply_regrouped<T, Tile::columns>(
          sums, shared_address(operand + ring.slot * Tile::operand_bytes + warpgroup * gemm_box),
          shared_address(weight + of_weight.slot * Tile::weight_bytes + warpgroup * Tile::columns * 128));
      commit_products();
      wait_for_products<1>();
      if (step > 0) release(last_slot, last_weight);
      last_slot = ring.slot, last_weight = of_weight.slot;
      ring.advance(), of_weight.advance();
    } while (++step < task.gemm.k_steps);
    fetch.put(task.gemm, shared.bias[warpgroup][buffer.slot ^ 1]);  // of the next tile
    wait_for_products<0>();
    fence_sums<Tile::columns>(sums);
    release(last_slot, last_weight);
    shared.sums.taken[buffer.slot].wait_for_cluster(buffer.phase ^ 1);
    keep_sums<T, Tile>(kept + buffer.slot * Tile::tile_bytes, warpgroup, 0, sums);
    synchronize(1 + warpgroup, 128);
    if (thread < exchange_cluster) shared.sums.ready[buffer.slot].publish_at(thread);
  }
}

template <class T, class Tile>
__global__ __launch_bounds__(Tile::threads, 1) void regroup_kernel(const __grid_constant__ ExchangeTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  static_assert(sizeof(RegroupShared<Tile>) + 1024 <= Tile::slack, "barriers, bias and the alignment");
  extern __shared__ unsigned char unaligned[];
  unsigned char* operand = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  unsigned char* weight = operand + Tile::operands * Tile::operand_bytes;
  unsigned char* raw = weight + Tile::weights * Tile::weight_bytes;
  unsigned char* kept = raw + Tile::raws * Tile::raw_bytes;
  auto& shared = *reinterpret_cast<RegroupShared<Tile>*>(kept + Tile::sums_bytes);
  constexpr int regrouper = exchange_multipliers + exchange_buffers * Tile::writers;
  constexpr int feeder = regrouper + Tile::regroupers;
  const int thread = threadIdx.x;
  if (thread == 0) shared.init();
  if (thread == 32) prefetch_map(task.gemm.x), prefetch_map(task.gemm.weight);
  __syncthreads();
  synchronize_cluster();
  wait_for_kernels_before();
  if (thread < exchange_multipliers)
    multiply_planes<T, Tile>(task, shared, operand, weight, shared_address(kept));
  else if (thread < regrouper)
    write_exchanged<Tile>(task, shared.sums, shared_address(kept));
  else if (thread < feeder)
    regroup<Tile>(task, shared, shared_address(raw), shared_address(operand), thread - regrouper);
  else if (thread == feeder)
    feed_raw<Tile>(task, shared, raw);
  else if (thread == feeder + 32)
    feed_weight<Tile>(task, shared, weight);
  __syncwarp();
  synchronize_cluster();  // other blocks may still read from this one, send to it, and arrive at its barriers
#endif
}

}  // namespace ksmm::hopper
