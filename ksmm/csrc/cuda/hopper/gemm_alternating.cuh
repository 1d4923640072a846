// The gemm kernel whose two warpgroups take turns: while one multiplies, the other is on its way to Y. W is streamed
// along with X, as in gemm_streamed.cuh, where both multiply at the same time, and nothing does while both write.
//
// For b and c of several hundreds, where products and memory take as long as each other.
#pragma once

#include "gemm_epilogue.cuh"

namespace ksmm::hopper {

struct AlternatingTile {
  static constexpr int columns = 128;  // r
  static constexpr int blocks = 2;     // of 64 n, of a warpgroup
  static constexpr int stages = 5;
  static constexpr int pairs = 2;  // of boxes, of a warpgroup's outlet
  static constexpr int warpgroups = 2;
  static constexpr int cluster = 2;
  static constexpr int threads = 128 * warpgroups + 32;
  static constexpr int x_bytes = blocks * gemm_box;
  static constexpr int weight_bytes = columns * 128;
  static constexpr int staging_bytes = warpgroups * pairs * 2 * gemm_box;
  static constexpr int shared_bytes = stages * (x_bytes + weight_bytes) + staging_bytes + 2304;
  static_assert(shared_bytes <= 227 * 1024, "the shared memory of a multiprocessor");
};

struct AlternatingShared {
  using Tile = AlternatingTile;
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

// Where a tile of a cluster is: r fastest, so that the blocks that share X run at the same time.
struct AlternatingPlace {
  using Tile = AlternatingTile;
  int r, n, i, j;
  __device__ AlternatingPlace(const GemmTask& task, int tile, int rank) {
    const int rest = tile / task.column_tiles, plane = rest / task.row_tiles;
    r = tile % task.column_tiles * Tile::columns;
    n = (rest % task.row_tiles * Tile::cluster + rank) * Tile::blocks * gemm_rows;
    i = plane / task.groups_j, j = plane % task.groups_j;
  }
};

template <bool ROWS_CONTIGUOUS>
__device__ void feed_alternating(const GemmTask& task, AlternatingShared& shared, unsigned char* x,
                                 unsigned char* weight) {
  using Tile = AlternatingTile;
  const int rank = static_cast<int>(rank_in_cluster());
  constexpr int half = Tile::columns / Tile::cluster;
  Ring<Tile::stages> ring;
  for (int tile = blockIdx.x / Tile::cluster; tile < task.tiles; tile += gridDim.x / Tile::cluster) {
    const AlternatingPlace place(task, tile, rank);
    for (int step = 0; step < task.k_steps; ++step, ring.advance()) {
      Barrier& full = shared.full[ring.slot];
      shared.empty[ring.slot].wait_for_cluster(ring.phase ^ 1);
      full.arrive_expecting(Tile::x_bytes + Tile::weight_bytes);
      for (int block = 0; block < Tile::blocks; ++block)
        load_box<ROWS_CONTIGUOUS>(x + ring.slot * Tile::x_bytes + block * gemm_box, task.x, full,
                                  place.n + block * gemm_rows, step * gemm_step, place.i, place.j);
      load_for(3, weight + ring.slot * Tile::weight_bytes + rank * half * 128, task.weight, full, Keep::last_out,
               step * gemm_step, place.r + rank * half, place.j, place.i);
    }
  }
}

// A warpgroup's way from its sums to Y. Boxes that are neighbours along the contiguous dimension are stored in turns,
// in parts, so that 256 bytes of a row come together; one after the other they would be written more slowly.
template <class T, bool ROWS_CONTIGUOUS>
struct AlternatingOutlet {
  using Tile = AlternatingTile;
  unsigned char* shared;
  int barrier;  // of the warpgroup
  int next = 0;

  __device__ void put(const float (&sums)[Tile::blocks][Tile::columns / 2], const GemmTask& task, int n, int r0, int i,
                      int j) {
    static_assert(Tile::blocks == 2 && Tile::columns == 128, "two boxes by two, written in pairs");
    const bool sender = threadIdx.x % 128 == 0;
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      unsigned char* boxes = shared + next * 2 * gemm_box;
      if (++next == Tile::pairs) next = 0;
      if (sender) wait_for_store_reads<Tile::pairs - 1>();
      synchronize(barrier, 128);
#pragma unroll
      for (int of = 0; of < 2; ++of) {
        const int block = ROWS_CONTIGUOUS ? of : pair, first = 64 * (ROWS_CONTIGUOUS ? pair : of);
#pragma unroll
        for (int column = 0; column < 64; column += 16)
          Outlet<T, ROWS_CONTIGUOUS, 2>::put_columns(shared_address(boxes + of * gemm_box), column,
                                                     &sums[block][(first + column) / 2]);
      }
      fence_for_engines();
      synchronize(barrier, 128);
      if (sender) send(task, boxes, pair, n, r0, i, j);
    }
  }

 private:
  __device__ static void send(const GemmTask& task, const unsigned char* boxes, int pair, int n, int r, int i, int j) {
#pragma unroll
    for (int row = 0; row < 64; row += gemm_part)
#pragma unroll
      for (int of = 0; of < 2; ++of) {
        const unsigned char* part = boxes + of * gemm_box + row * 128;
        if constexpr (ROWS_CONTIGUOUS)
          store_box<true>(task.y, part, n + of * 64, r + pair * 64 + row, i, j);
        else
          store_box<false>(task.y, part, n + pair * 64 + row, r + of * 64, i, j);
      }
    commit_stores();
  }
};

template <class T, bool ROWS_CONTIGUOUS>
__device__ void multiply_alternating(const GemmTask& task, AlternatingShared& shared, unsigned char* x,
                                     unsigned char* weight, unsigned char* staging) {
  using Tile = AlternatingTile;
  const int rank = static_cast<int>(rank_in_cluster());
  const int warpgroup = threadIdx.x / 128, thread = threadIdx.x % 128;
  AlternatingOutlet<T, ROWS_CONTIGUOUS> outlet{staging + warpgroup * Tile::pairs * 2 * gemm_box, 1 + warpgroup};
  const auto release = [&](int slot) {
    if (thread < Tile::cluster) shared.empty[slot].arrive_at(thread);
  };
  float sums[Tile::blocks][Tile::columns / 2];
  Ring<Tile::stages> ring;
  int turn = 0;
  uint32_t phase_of_other = 1 - warpgroup;  // the first tile waits for no other
  for (int tile = blockIdx.x / Tile::cluster; tile < task.tiles; tile += gridDim.x / Tile::cluster, turn ^= 1) {
    if (turn != warpgroup) {
      ring.skip(task.k_steps);
      continue;
    }
    const AlternatingPlace place(task, tile, rank);
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

template <class T, bool ROWS_CONTIGUOUS>
__global__ __launch_bounds__(AlternatingTile::threads,
                             1) void alternating_kernel(const __grid_constant__ GemmTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Tile = AlternatingTile;
  extern __shared__ unsigned char unaligned[];
  unsigned char* x = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  unsigned char* weight = x + Tile::stages * Tile::x_bytes;
  unsigned char* staging = weight + Tile::stages * Tile::weight_bytes;
  auto& shared = *reinterpret_cast<AlternatingShared*>(staging + Tile::staging_bytes);
  if (threadIdx.x == 0) shared.init();
  if (threadIdx.x == 32) prefetch_map(task.x), prefetch_map(task.weight), prefetch_map(task.y);
  __syncthreads();
  synchronize_cluster();
  wait_for_kernels_before();
  if (threadIdx.x < 128 * Tile::warpgroups)
    multiply_alternating<T, ROWS_CONTIGUOUS>(task, shared, x, weight, staging);
  else if (threadIdx.x == 128 * Tile::warpgroups)
    feed_alternating<ROWS_CONTIGUOUS>(task, shared, x, weight);
  __syncwarp();
  synchronize_cluster();  // the other block may still load into this one, and arrive at its barriers
#endif
}

}  // namespace ksmm::hopper
