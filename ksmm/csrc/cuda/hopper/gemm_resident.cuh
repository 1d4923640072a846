// The gemm kernel for the planes of an i as one matrix (gemm_spread.cuh) whose blocks stay: each makes its matrix once,
// and multiplies many tiles of n by it.
//
// A block has the columns of a tile and all k of the matrix in shared memory; one warp streams X in boxes of 64 k,
// which are on their way before the matrix is there. Warpgroups take tiles of 64 n in turns, so that one multiplies
// while others write.
#pragma once

#include "gemm_resident_tile.cuh"
#include "gemm_spread_weight.cuh"

namespace ksmm::hopper {

// What a block has in shared memory.
template <class Tile>
struct ResidentMemory {
  unsigned char *x, *weight, *staging;
  ResidentShared<Tile>* shared;
  static_assert(sizeof(ResidentShared<Tile>) + 1024 <= Tile::slack, "what is not boxes nor the matrix");
  __device__ ResidentMemory(const ResidentTask& task, unsigned char* unaligned) {
    x = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
    weight = x + task.stages * gemm_box;
    staging = weight + task.k_steps * Tile::weight_bytes;
    shared = reinterpret_cast<ResidentShared<Tile>*>(staging + Tile::staging_bytes);
  }
};

// One thread keeps the ring of stages full.
template <class Tile>
__device__ void feed_resident(const ResidentTask& task, const ResidentMemory<Tile>& memory) {
  const ResidentRange range(task.tiles, blockIdx.x, gridDim.x);
  VariableRing ring{task.stages};
  for (int tile = range.first; tile < range.last; ++tile) {
    const ResidentPlace<Tile> place(task, tile);
    for (int step = 0; step < task.k_steps; ++step, ring.advance()) {
      Barrier& full = memory.shared->full[ring.slot];
      memory.shared->empty[ring.slot].wait(ring.phase ^ 1);
      full.arrive_expecting(gemm_box);
      load_box<false>(memory.x + ring.slot * gemm_box, task.x, task.x_keep, full, place.n_of(tile), step * gemm_step,
                      place.i, 0);
    }
  }
}

// All warpgroups that multiply make the matrix of a place, and bring its bias. They wait for each other at a barrier in
// shared memory: one with a number racecheck did not take for an order of what is written before and read behind it.
template <class T, class Tile, int D>
__device__ void make_matrix(const ResidentTask& task, const ResidentMemory<Tile>& memory,
                            const ResidentPlace<Tile>& place, uint32_t phase) {
  constexpr int all = Tile::warpgroups + 1;  // a barrier
  int thread = static_cast<int>(threadIdx.x);
  asm volatile("" : "+r"(thread));  // what depends on it shall take no registers while sums do
  const int column = place.r + thread;
  synchronize(all, Tile::consumers);  // none multiplies by the matrix before it any more
  float bias = 0;
  if (task.bias != nullptr && thread < Tile::columns && column < task.b)
    bias =
        to_float<T>(__ldg(static_cast<const uint16_t*>(task.bias) + static_cast<int64_t>(place.i) * task.b + column));
  spread_weight<Tile, D, Tile::consumers, Tile::spread_rows, Tile::spread_parts>(task, place.r, place.i, thread,
                                                                                 memory.weight);
  if (thread < Tile::columns) memory.shared->bias[thread] = bias;
  fence_for_engines();
  memory.shared->made.arrive();
  memory.shared->made.wait(phase);
}

// From the bias, or the zeros in its place: to ask which would take registers.
template <class Tile>
__device__ void start_resident(float (&sums)[Tile::columns / 2], const ResidentShared<Tile>& shared) {
#pragma unroll
  for (int at = 0; at < Tile::columns / 2; at += 4) {
    const float2 pair = *reinterpret_cast<const float2*>(&shared.bias[2 * at + threadIdx.x % 4 * 2]);
    sums[at] = sums[at + 2] = pair.x, sums[at + 1] = sums[at + 3] = pair.y;
  }
  fence_sums<Tile::columns>(sums);
}

// Zero times infinity or NaN is NaN, also in sums of planes that have neither. Each NaN of a tile of Y is computed
// anew: in device memory, since the tile has left shared memory in parts. All threads of a warpgroup call it.
template <class T, class Tile>
__device__ void mend_tile(const ResidentTask& task, const ResidentPlace<Tile>& place, int first_n, int barrier) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  if (thread == 0) wait_for_stores();
  synchronize(barrier, 128);
#pragma unroll 1
  for (int at = thread; at < gemm_rows * Tile::columns; at += 128) {
    const int n = first_n + at / Tile::columns, r = place.r + at % Tile::columns;
    if (n >= task.rows || r >= task.b) continue;
    uint16_t* const number = static_cast<uint16_t*>(task.y_rows) + place.i * task.y_i + n * task.y_stride + r;
    if (!isnan(to_float<T>(__ldcg(number)))) continue;  // not as the first cache may still have it
    const float sum = sum_of_plane<T>(task, n, place.i, r);
    *number = static_cast<uint16_t>(pack_pair<T>(sum, sum));
  }
}

template <class T, class Tile, int D>
__device__ void multiply_resident(const ResidentTask& task, const ResidentMemory<Tile>& memory) {
  const int warpgroup = static_cast<int>(threadIdx.x) / 128, barrier = 1 + warpgroup;
  const ResidentRange range(task.tiles, blockIdx.x, gridDim.x);
  ResidentShared<Tile>& shared = *memory.shared;
  Outlet<T, false, Tile::boxes> outlet{memory.staging + warpgroup * Tile::outlet_bytes, barrier};
  const bool releases = threadIdx.x % 128 == 0;
  const auto release = [&](int slot) {
    if (releases) shared.empty[slot].arrive();
  };
  const uint32_t x = shared_address(memory.x), weight = shared_address(memory.weight);
  float sums[Tile::columns / 2];
  VariableRing ring{task.stages};
  ring.skip(warpgroup * task.k_steps);
  uint32_t phase_of_other = warpgroup == 0;  // the first tile waits for no other
  uint32_t phase_of_matrix = 0;
  int tile = range.first + warpgroup;
  for (int first = range.first; first < range.last;) {
    const ResidentPlace<Tile> place(task, first);
    make_matrix<T, Tile, D>(task, memory, place, phase_of_matrix);
    phase_of_matrix ^= 1;
    first = min(range.last, place.first + task.row_tiles);
    for (; tile < first; tile += Tile::warpgroups) {
      start_resident<Tile>(sums, shared);
      // Not before: a barrier of the ring tells a phase from the next one only.
      shared.turn[warpgroup].wait(phase_of_other);
      phase_of_other ^= 1;
      int last_slot = 0, step = 0;
      do {  // once at least: a loop that may be left out makes the compiler serialise the products
        shared.full[ring.slot].wait(ring.phase);
        begin_products();
        multiply_stage<T, Tile::columns, false>(sums, x + ring.slot * gemm_box, weight + step * Tile::weight_bytes);
        commit_products();
        wait_for_products<1>();
        if (step > 0) release(last_slot);
        last_slot = ring.slot;
        ring.advance();
      } while (++step < task.k_steps);
      shared.turn[(warpgroup + 1) % Tile::warpgroups].arrive();
      wait_for_products<0>();
      fence_sums<Tile::columns>(sums);
      release(last_slot);
      const bool any = any_is_nan(sums);
      outlet.template put<Tile::columns>(sums, task, place.n_of(tile), place.r, place.i, 0);
      if (synchronize_or(barrier, 128, any)) mend_tile<T>(task, place, place.n_of(tile), barrier);
      ring.skip((Tile::warpgroups - 1) * task.k_steps);
    }
  }
  if (threadIdx.x % 128 == 0) wait_for_store_reads<0>();
}

template <class T, class Tile, int D>
__global__ __launch_bounds__(Tile::threads,
                             Tile::at_a_time) void resident_kernel(const __grid_constant__ ResidentTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char unaligned[];
  const ResidentMemory<Tile> memory(task, unaligned);
  memory.shared->init(task.stages);
  if (threadIdx.x == 32) prefetch_map(task.x), prefetch_map(task.y);
  __syncthreads();
  wait_for_kernels_before();
  if (threadIdx.x < Tile::consumers) {
    if constexpr (Tile::hands_registers) grow_registers<Tile::registers>();
    multiply_resident<T, Tile, D>(task, memory);
  } else {
    if constexpr (Tile::hands_registers) shrink_registers<Tile::helper_registers>();
    if (threadIdx.x == Tile::consumers) feed_resident<Tile>(task, memory);
  }
#endif
}

}  // namespace ksmm::hopper
