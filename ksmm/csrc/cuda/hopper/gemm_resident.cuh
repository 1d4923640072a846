// The gemm kernel that holds W in shared memory: for c up to a few hundred, where device memory is the limit.
//
// A block stays with one (i, j) for many tiles of n. One warp keeps a ring of boxes of X full; each warpgroup takes a
// tile of its own, so that one's way to Y overlaps with another's products. W is read once for each (i, j) of a block.
#pragma once

#include "gemm_epilogue.cuh"

namespace ksmm::hopper {

template <int COLUMNS_, int BLOCKS_, int WARPGROUPS_, int BUFFERS_>
struct ResidentTile {
  static constexpr int columns = COLUMNS_;        // r
  static constexpr int blocks = BLOCKS_;          // of 64 n that a warpgroup takes at a time
  static constexpr int warpgroups = WARPGROUPS_;  // that multiply
  static constexpr int buffers = BUFFERS_;        // of a warpgroup's outlet
  static constexpr int threads = 128 * warpgroups + 32;
  static constexpr int stage_bytes = blocks * gemm_box;
  static constexpr int staging_bytes = warpgroups * buffers * gemm_box;
  static constexpr int most_slots = 8;  // of a warpgroup
  static constexpr int most_weight_slots = 3;
  static constexpr int slack = 3072;  // barriers, the bias, and the alignment of the swizzle
  static_assert(columns % 16 == 0 && columns <= 256, "stmatrix takes 16 columns, a matrix instruction 256");
  static_assert(blocks * columns / 2 <= 128, "more sums do not fit into the registers");
  static_assert(threads * (blocks * columns / 2 + 40) <= 65536, "the registers of a multiprocessor");

  // Of shared memory, with a number of matrices W, and of stages for each warpgroup.
  static int64_t shared_bytes(int64_t k_steps, int weight_slots, int64_t slots) {
    return slack + staging_bytes + weight_slots * k_steps * columns * 128 + warpgroups * slots * stage_bytes;
  }
  static int slots(int64_t k_steps, int weight_slots, int shared_limit) {
    int slots = 0;
    while (slots < most_slots && shared_bytes(k_steps, weight_slots, slots + 1) <= shared_limit) ++slots;
    return slots;
  }
  // W of the next (i, j) comes early where that leaves stages of X for a tile and a half.
  static int weight_slots(int64_t k_steps, int shared_limit) {
    int count = most_weight_slots;
    while (count > 1 && slots(k_steps, count, shared_limit) * warpgroups * stage_bytes < 90000) --count;
    return count;
  }
};

// The tiles of a block, one after the other. All blocks go through the tiles (n fastest, then j) together, each taking
// `chunk` neighbours at a time: what is touched at a time stays within few pages of device memory, and W is reloaded
// once for a chunk at most. What is left for less than a chunk each is shared evenly.
struct ResidentTiles {
  int row_tiles, chunk, total;
  int first, tile, left_of_chunk;  // of the round, of the block
  int row_tile, plane;
  bool plane_changed = true;

  __device__ explicit ResidentTiles(const GemmTask& task)
      : row_tiles(task.row_tiles), chunk(task.chunk), total(task.tiles), plane(-1) {
    start_round(0);
  }
  __device__ bool done() const { return left_of_chunk == 0; }
  // Returns whether the next tile is the neighbour of the last, in the same plane.
  __device__ bool advance() {
    if (--left_of_chunk == 0) {
      start_round(first + static_cast<int>(gridDim.x) * chunk);
      return false;
    }
    ++tile;
    plane_changed = ++row_tile == row_tiles;
    if (plane_changed) row_tile = 0, ++plane;
    return !plane_changed;
  }

 private:
  __device__ void start_round(int tile_of_first_block) {
    first = tile_of_first_block;
    const int blocks = static_cast<int>(gridDim.x), left = total - first, block = static_cast<int>(blockIdx.x);
    if (left < blocks * chunk) chunk = (left + blocks - 1) / blocks;
    tile = first + block * chunk;
    left_of_chunk = max(0, min(chunk, total - tile));
    plane_changed = plane != tile / row_tiles;
    plane = tile / row_tiles, row_tile = tile % row_tiles;
  }
};

// Which slot of a ring of a number of slots is next, and in which phase it is.
struct Cursor {
  int slot = 0;
  uint32_t phase = 0;
  __device__ void advance(int slots) {
    if (++slot == slots) slot = 0, phase ^= 1;
  }
};

template <class Tile>
struct ResidentShared {
  Barrier full[Tile::warpgroups][Tile::most_slots], empty[Tile::warpgroups][Tile::most_slots];
  Barrier weight_full[Tile::most_weight_slots], weight_empty[Tile::most_weight_slots];
  uint16_t bias[Tile::warpgroups][Tile::columns];

  // By the lanes of a warp: one thread alone would take a microsecond for all of them.
  __device__ void init(int lane) {
    static_assert(Tile::warpgroups * Tile::most_slots <= 32, "a lane initialises one slot");
    if (lane < Tile::warpgroups * Tile::most_slots) {
      const int warpgroup = lane / Tile::most_slots, slot = lane % Tile::most_slots;
      full[warpgroup][slot].init(1), empty[warpgroup][slot].init(1);
    }
    if (lane < Tile::most_weight_slots) weight_full[lane].init(1), weight_empty[lane].init(4 * Tile::warpgroups);
    publish_barriers();
  }
};

template <class Tile>
__device__ inline void feed_weight(const GemmTask& task, ResidentShared<Tile>& shared, unsigned char* weights,
                                   const Cursor& cursor, int i, int j) {
  constexpr int bytes = Tile::columns * 128;
  Barrier& full = shared.weight_full[cursor.slot];
  shared.weight_empty[cursor.slot].wait(cursor.phase ^ 1);
  full.arrive_expecting(task.k_steps * bytes);
  for (int step = 0; step < task.k_steps; ++step)
    load(weights + (cursor.slot * task.k_steps + step) * bytes, task.weight, full, Keep::last_out, step * gemm_step, 0,
         j, i);
}

// Loads the stages of `count` tiles of one plane, one for each warpgroup from `turn` on: in turns, so that all rings
// are full also where a tile has more stages than a ring.
template <class Tile, bool ROWS_CONTIGUOUS>
__device__ inline void feed_tiles(const GemmTask& task, ResidentShared<Tile>& shared, unsigned char* rings,
                                  Cursor (&cursors)[Tile::warpgroups], int turn, int count, int row_tile, int i,
                                  int j) {
  for (int step = 0; step < task.k_steps; ++step) {
#pragma unroll
    for (int warpgroup = 0; warpgroup < Tile::warpgroups; ++warpgroup) {
      const int place = (warpgroup - turn + Tile::warpgroups) % Tile::warpgroups;
      if (place >= count) continue;
      Cursor& cursor = cursors[warpgroup];
      Barrier& full = shared.full[warpgroup][cursor.slot];
      shared.empty[warpgroup][cursor.slot].wait(cursor.phase ^ 1);
      full.arrive_expecting(Tile::stage_bytes);
      unsigned char* stage = rings + (warpgroup * task.slots + cursor.slot) * Tile::stage_bytes;
      const int n = (row_tile + place) * Tile::blocks * gemm_rows;
      for (int block = 0; block < Tile::blocks; ++block)
        load_box<ROWS_CONTIGUOUS>(stage + block * gemm_box, task.x, full, n + block * gemm_rows, step * gemm_step, i,
                                  j);
      cursor.advance(task.slots);
    }
  }
}

template <class Tile, bool ROWS_CONTIGUOUS>
__device__ void feed_resident(const GemmTask& task, ResidentShared<Tile>& shared, unsigned char* weights,
                              unsigned char* rings) {
  Cursor cursors[Tile::warpgroups], weight;
  int turn = 0;
  for (ResidentTiles tiles(task); !tiles.done();) {
    const int i = tiles.plane / task.groups_j, j = tiles.plane % task.groups_j, row_tile = tiles.row_tile;
    if (tiles.plane_changed) {
      feed_weight(task, shared, weights, weight, i, j);
      weight.advance(task.weight_slots);
    }
    int count = 1;
    while (tiles.advance() && count < Tile::warpgroups) ++count;
    feed_tiles<Tile, ROWS_CONTIGUOUS>(task, shared, rings, cursors, turn, count, row_tile, i, j);
    turn = (turn + count) % Tile::warpgroups;
  }
}

// The products of a tile; empties its stages.
template <class T, class Tile, bool ROWS_CONTIGUOUS>
__device__ inline void multiply_tile(float (&sums)[Tile::blocks][Tile::columns / 2], const GemmTask& task,
                                     Barrier* full, Barrier* empty, uint32_t weight, uint32_t ring, Cursor& cursor) {
  const bool sender = threadIdx.x % 128 == 0;
  int last_slot = 0, step = 0;
  do {  // once at least: a loop that may be left out makes the compiler serialise the products
    full[cursor.slot].wait(cursor.phase);
    begin_products();
#pragma unroll
    for (int block = 0; block < Tile::blocks; ++block)
      multiply_stage<T, Tile::columns, ROWS_CONTIGUOUS>(
          sums[block], ring + cursor.slot * Tile::stage_bytes + block * gemm_box, weight + step * Tile::columns * 128);
    commit_products();
    wait_for_products<1>();
    if (step > 0 && sender) empty[last_slot].arrive();
    last_slot = cursor.slot;
    cursor.advance(task.slots);
  } while (++step < task.k_steps);
  wait_for_products<0>();
#pragma unroll
  for (int block = 0; block < Tile::blocks; ++block) fence_sums<Tile::columns>(sums[block]);
  if (sender) empty[last_slot].arrive();
}

template <class T, class Tile, bool ROWS_CONTIGUOUS>
__device__ void multiply_resident(const GemmTask& task, ResidentShared<Tile>& shared, unsigned char* weights,
                                  unsigned char* rings, unsigned char* staging) {
  const int warpgroup = threadIdx.x / 128;
  const bool sender = threadIdx.x % 128 == 0;
  Outlet<T, ROWS_CONTIGUOUS, Tile::buffers> outlet{staging + warpgroup * Tile::buffers * gemm_box, 1 + warpgroup};
  const uint32_t ring = shared_address(rings + warpgroup * task.slots * Tile::stage_bytes);
  float sums[Tile::blocks][Tile::columns / 2];
  Cursor cursor, weight;
  int turn = 0;
  for (ResidentTiles tiles(task); !tiles.done();) {
    const int i = tiles.plane / task.groups_j, j = tiles.plane % task.groups_j, row_tile = tiles.row_tile;
    const bool mine = turn == warpgroup;
    if (++turn == Tile::warpgroups) turn = 0;
    if (mine) {
      uint16_t* bias = shared.bias[warpgroup];
      BiasFetch<Tile::columns> fetch;
      fetch.read(task, 0, i, j);
      fetch.write(task, bias, 1 + warpgroup);
#pragma unroll
      for (int block = 0; block < Tile::blocks; ++block)
        start_sums<T, Tile::columns>(sums[block], task.bias == nullptr ? nullptr : bias);
      shared.weight_full[weight.slot].wait(weight.phase);
      multiply_tile<T, Tile, ROWS_CONTIGUOUS>(
          sums, task, shared.full[warpgroup], shared.empty[warpgroup],
          shared_address(weights + weight.slot * task.k_steps * Tile::columns * 128), ring, cursor);
    }
    tiles.advance();
    if (!tiles.done() && tiles.plane_changed) {
      // also without a tile of this plane, and each warp for itself: one that is two phases behind or ahead would
      // mistake one phase for another
      shared.weight_full[weight.slot].wait(weight.phase);
      __syncwarp();
      if (threadIdx.x % 32 == 0) shared.weight_empty[weight.slot].arrive();
      weight.advance(task.weight_slots);
    }
    if (mine) {
#pragma unroll
      for (int block = 0; block < Tile::blocks; ++block)
        outlet.template put<Tile::columns>(sums[block], task, (row_tile * Tile::blocks + block) * gemm_rows, 0, i, j);
    }
  }
  if (sender) wait_for_store_reads<0>();
}

template <class T, class Tile, bool ROWS_CONTIGUOUS>
__global__ __launch_bounds__(Tile::threads, 1) void resident_kernel(const __grid_constant__ GemmTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char unaligned[];
  unsigned char* rings = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  unsigned char* staging = rings + Tile::warpgroups * task.slots * Tile::stage_bytes;
  unsigned char* weights = staging + Tile::staging_bytes;
  auto& shared =
      *reinterpret_cast<ResidentShared<Tile>*>(weights + task.weight_slots * task.k_steps * Tile::columns * 128);
  if (threadIdx.x < 32) shared.init(threadIdx.x);
  if (threadIdx.x == 32) prefetch_map(task.x), prefetch_map(task.weight), prefetch_map(task.y);
  __syncthreads();
  wait_for_kernels_before();
  if (threadIdx.x < 128 * Tile::warpgroups)
    multiply_resident<T, Tile, ROWS_CONTIGUOUS>(task, shared, weights, rings, staging);
  else if (threadIdx.x == 128 * Tile::warpgroups)
    feed_resident<Tile, ROWS_CONTIGUOUS>(task, shared, weights, rings);
#endif
}

}  // namespace ksmm::hopper
