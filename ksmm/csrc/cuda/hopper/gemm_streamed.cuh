// The gemm kernel that streams W along with X: for c and b of several hundreds, where the matrix units are the limit.
//
// Two blocks of a cluster take 128 n each and the same r: each loads half of W for both. Two warpgroups share a stage,
// and one warp fills the ring, also while they write Y.
#pragma once

#include "gemm_parted.cuh"

namespace ksmm::hopper {

template <int COLUMNS_, int STAGES_>
struct StreamedTile {
  static constexpr int columns = COLUMNS_;  // r
  static constexpr int stages = STAGES_;
  static constexpr int buffers = 2;  // of a warpgroup's outlet
  static constexpr int warpgroups = 2;
  static constexpr int cluster = 2;
  static constexpr int consumers = 128 * warpgroups;
  // Whether sums leave in two parts (gemm_parted.cuh), which takes registers that a third warpgroup hands over.
  static constexpr bool parted = columns == 256;
  static constexpr int threads = consumers + (parted ? 128 : 32);
  static constexpr bool in_teams = parted;  // the others load little of W
  static constexpr int registers = 216, helper_registers = 40;
  static_assert(!parted || registers_suffice<consumers, registers, 128, helper_registers>,
                "or a warpgroup would wait for ever");
  static constexpr int x_bytes = warpgroups * gemm_box;
  static constexpr int weight_bytes = columns * 128;
  static constexpr int staging_bytes = warpgroups * buffers * gemm_box;
  static constexpr int shared_bytes = stages * (x_bytes + weight_bytes) + staging_bytes + 2304;
  static_assert(columns % 32 == 0 && columns <= 256, "each of two blocks loads rows of W eight at a time");
  static_assert(shared_bytes <= 227 * 1024, "the shared memory of a multiprocessor");
};

template <class Tile>
struct StreamedShared {
  Barrier full[Tile::stages], empty[Tile::stages];
  uint16_t bias[Tile::warpgroups][Tile::columns];

  __device__ void init() {
    for (int stage = 0; stage < Tile::stages; ++stage)
      full[stage].init(1), empty[stage].init(Tile::warpgroups * Tile::cluster);
    publish_barriers();
  }
};

template <class T, class Tile, bool ROWS_CONTIGUOUS>
__device__ void multiply_streamed(const GemmTask& task, StreamedShared<Tile>& shared, unsigned char* x,
                                  unsigned char* weight, unsigned char* staging) {
  const int rank = static_cast<int>(rank_in_cluster());
  const int warpgroup = warpgroup_of_block(), thread = threadIdx.x % 128;
  Outlet<T, ROWS_CONTIGUOUS, Tile::buffers> outlet{staging + warpgroup * Tile::buffers * gemm_box, 1 + warpgroup};
  const auto release = [&](int slot) {
    if (thread < Tile::cluster) shared.empty[slot].arrive_at(thread);
  };
  float sums[Tile::columns / 2];
  Ring<Tile::stages> ring;
  BiasFetch<Tile::columns> fetch;
  const auto share = own_share<Tile>(task);
  {
    const PairPlace<Tile> place(task, share.first, rank);
    fetch.read(task, place.r, place.i, place.j);
  }
  for (int tile = share.first; tile < share.end; tile += share.stride) {
    const PairPlace<Tile> place(task, tile, rank);
    uint16_t* bias = shared.bias[warpgroup];
    fetch.write(task, bias, 1 + warpgroup);
    start_sums<T, Tile::columns>(sums, task.bias == nullptr ? nullptr : bias);
    if (const int next = tile + share.stride; next < share.end) {
      const PairPlace<Tile> later(task, next, rank);
      fetch.read(task, later.r, later.i, later.j);
    }
    int last_slot = 0, step = 0;
    do {  // once at least: a loop that may be left out makes the compiler serialise the products
      shared.full[ring.slot].wait(ring.phase);
      begin_products();
      multiply_stage<T, Tile::columns, ROWS_CONTIGUOUS>(
          sums, shared_address(x + ring.slot * Tile::x_bytes + warpgroup * gemm_box),
          shared_address(weight + ring.slot * Tile::weight_bytes));
      commit_products();
      wait_for_products<1>();
      if (step > 0) release(last_slot);
      last_slot = ring.slot;
      ring.advance();
    } while (++step < task.k_steps);
    wait_for_products<0>();
    fence_sums<Tile::columns>(sums);
    release(last_slot);
    outlet.template put<Tile::columns>(sums, task, place.n + warpgroup * gemm_rows, place.r, place.i, place.j);
  }
  if (thread == 0) wait_for_store_reads<0>();
}

template <class T, class Tile, bool ROWS_CONTIGUOUS>
__global__ __launch_bounds__(Tile::threads, 1) void streamed_kernel(const __grid_constant__ GemmTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char unaligned[];
  unsigned char* x = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  unsigned char* weight = x + Tile::stages * Tile::x_bytes;
  unsigned char* staging = weight + Tile::stages * Tile::weight_bytes;
  auto& shared = *reinterpret_cast<StreamedShared<Tile>*>(staging + Tile::staging_bytes);
  if (threadIdx.x == 0) shared.init();
  if (threadIdx.x == 32) prefetch_map(task.x), prefetch_map(task.weight), prefetch_map(task.y);
  __syncthreads();
  synchronize_cluster();
  if (threadIdx.x < Tile::consumers) {
    wait_for_kernels_before();
    if constexpr (Tile::parted) {
      grow_registers<Tile::registers>();
      multiply_parted<T, Tile, ROWS_CONTIGUOUS>(task, shared, x, weight, staging);
    } else {
      multiply_streamed<T, Tile, ROWS_CONTIGUOUS>(task, shared, x, weight, staging);
    }
  } else {
    if constexpr (Tile::parted) shrink_registers<Tile::helper_registers>();
    help_pairs<Tile, ROWS_CONTIGUOUS>(task, shared, x, weight);
  }
  __syncwarp();
  synchronize_cluster();  // the other block may still load into this one, and arrive at its barriers
#endif
}

}  // namespace ksmm::hopper
