// The gemm kernel whose two warpgroups take turns: while one multiplies, the other is on its way to Y. W is streamed
// along with X, as in gemm_streamed.cuh, where both multiply at the same time, and nothing does while both write.
#pragma once

#include "gemm_alternating_store.cuh"
#include "gemm_pairs.cuh"

namespace ksmm::hopper {

template <class Tile>
struct AlternatingShared {
  Barrier full[Tile::stages], empty[Tile::stages];
  Barrier turn[Tile::warpgroups];  // whether all products of a warpgroup's tile have begun
  uint16_t bias[Tile::warpgroups][Tile::columns];

  // A stage is read by one warpgroup of each of the two blocks that loaded it.
  __device__ void init() {
    for (int stage = 0; stage < Tile::stages; ++stage) full[stage].init(1), empty[stage].init(Tile::cluster);
    for (int warpgroup = 0; warpgroup < Tile::warpgroups; ++warpgroup) turn[warpgroup].init(128);
    publish_barriers();
  }
};

template <class T, class Tile, bool ROWS_CONTIGUOUS>
__device__ void multiply_alternating(const typename Tile::Task& task, AlternatingShared<Tile>& shared, unsigned char* x,
                                     unsigned char* weight, unsigned char* staging) {
  const int rank = static_cast<int>(rank_in_cluster());
  const int warpgroup = warpgroup_of_block(), thread = threadIdx.x % 128;
  using Boxes = std::conditional_t<Tile::paired, AlternatingOutlet<T, Tile, ROWS_CONTIGUOUS>,
                                   SingleBoxOutlet<T, Tile, ROWS_CONTIGUOUS>>;
  using Outlet = std::conditional_t<Tile::wide, WideOutlet<T, Tile>, Boxes>;
  Outlet outlet{staging + warpgroup * Tile::outlet_bytes, 1 + warpgroup};
  const auto release = [&](int slot) {
    if (thread < Tile::cluster) shared.empty[slot].arrive_at(thread);
  };
  float sums[Tile::blocks][Tile::columns / 2];
  Ring<Tile::stages> ring;
  int turn = 0;
  uint32_t phase_of_other = 1 - warpgroup;  // the first tile waits for no other
  const auto share = own_share<Tile>(task);
  for (int tile = share.first; tile < share.end; tile += share.stride, turn ^= 1) {
    if (turn != warpgroup) {
      ring.skip(task.k_steps);
      continue;
    }
    const PairPlace<Tile> place(task, tile, rank);
    uint16_t* bias = shared.bias[warpgroup];
    BiasFetch<Tile::columns> fetch;
    fetch.read(task, place.r, place.i, place.j);
    fetch.write(task, bias, 1 + warpgroup);
#pragma unroll
    for (int block = 0; block < Tile::blocks; ++block)
      start_sums<T, Tile::columns>(sums[block], task.bias == nullptr ? nullptr : bias);
    // Not before: a barrier of the ring tells a phase from the next one only.
    shared.turn[1 - warpgroup].wait(phase_of_other);
    phase_of_other ^= 1;
    int last_slot = 0, step = 0;
    do {  // once at least: a loop that may be left out makes the compiler serialise the products
      shared.full[ring.slot].wait(ring.phase);
      begin_products();
#pragma unroll
      for (int block = 0; block < Tile::blocks; ++block)
        multiply_stage<T, Tile::columns, ROWS_CONTIGUOUS>(
            sums[block], shared_address(x + ring.slot * Tile::x_bytes + block * gemm_box),
            shared_address(weight + ring.slot * Tile::weight_bytes));
      commit_products();
      wait_for_products<1>();
      if (step > 0) release(last_slot);
      last_slot = ring.slot;
      ring.advance();
    } while (++step < task.k_steps);
    shared.turn[warpgroup].arrive();
    wait_for_products<0>();
#pragma unroll
    for (int block = 0; block < Tile::blocks; ++block) fence_sums<Tile::columns>(sums[block]);
    release(last_slot);
    outlet.put(sums, task, place.n, place.r, place.i, place.j);
  }
  if (thread == 0) wait_for_store_reads<0>();
}

template <class T, class Tile, bool ROWS_CONTIGUOUS>
__global__ __launch_bounds__(Tile::threads,
                             1) void alternating_kernel(const __grid_constant__ typename Tile::Task task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char unaligned[];
  unsigned char* x = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  unsigned char* weight = x + Tile::stages * Tile::x_bytes;
  unsigned char* staging = weight + Tile::stages * Tile::weight_bytes;
  auto& shared = *reinterpret_cast<AlternatingShared<Tile>*>(staging + Tile::staging_bytes);
  if (threadIdx.x == 0) shared.init();
  if (threadIdx.x == 32) {
    prefetch_map(task.x), prefetch_map(task.weight);
    if constexpr (!Tile::wide) prefetch_map(task.y);
  }
  __syncthreads();
  synchronize_cluster();
  if (threadIdx.x < Tile::consumers) {
    if constexpr (Tile::hands_registers) grow_registers<Tile::registers>();
    wait_for_kernels_before();
    multiply_alternating<T, Tile, ROWS_CONTIGUOUS>(task, shared, x, weight, staging);
  } else {
    if constexpr (Tile::hands_registers) shrink_registers<Tile::helper_registers>();
    help_pairs<Tile, ROWS_CONTIGUOUS>(task, shared, x, weight);
  }
  __syncwarp();
  synchronize_cluster();  // the other block may still load into this one, and arrive at its barriers
#endif
}

}  // namespace ksmm::hopper
