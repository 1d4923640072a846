// The gemm kernel whose blocks have one tile each: for b and c of up to about a hundred, and for small products.
//
// A block fetches all of X and W that its tile needs at once, multiplies, writes, and is gone; several are on a
// multiprocessor at a time, so that one's way to Y overlaps with the loads of others. A tile takes the time of one copy
// in and one out, without rings and their warps: half of what a block needs to begin that stays for many tiles.
#pragma once

#include <algorithm>

#include "gemm_epilogue.cuh"

namespace ksmm::hopper {

// A warpgroup with BLOCKS times 64 n by COLUMNS r.
template <int COLUMNS_, int BLOCKS_>
struct SingleTile {
  static constexpr int columns = COLUMNS_;  // r
  static constexpr int blocks = BLOCKS_;    // of 64 n
  static constexpr int rows = blocks * gemm_rows;
  static constexpr int threads = 128;
  static constexpr int weight_bytes = columns * 128;
  static constexpr int across = (columns + 63) / 64;  // boxes of Y along r
  static constexpr int boxes = blocks * across;
  static constexpr int most_steps = 16;
  static constexpr bool spreads = columns == 64 || (columns == 96 && blocks == 2);  // gemm_spread.cuh: the fastest
  static constexpr int slack = 2048;  // barriers, the bias, and the alignment of the swizzle
  static_assert(columns % 16 == 0, "stmatrix takes 16 columns");
  static_assert(blocks * columns / 2 <= 96, "with more sums two blocks do not fit on a multiprocessor");
  static_assert(boxes <= 32, "a lane stores a box");

  // Which box has a column of a block of sums, and where in the tile a box begins.
  __host__ __device__ static constexpr int box_of(int block, int column) { return block * across + column / 64; }
  __host__ __device__ static constexpr int n_of_box(int box) { return box / across * gemm_rows; }
  __host__ __device__ static constexpr int r_of_box(int box) { return box % across * 64; }

  // X, in whose place Y comes, W, and the rest.
  static int64_t x_bytes(int64_t k_steps) { return std::max<int64_t>(blocks * k_steps, boxes) * gemm_box; }
  static int64_t shared_bytes(int64_t k_steps) { return slack + x_bytes(k_steps) + k_steps * weight_bytes; }
};

template <class Tile>
struct SingleShared {
  Barrier full[Tile::most_steps];
  uint16_t bias[Tile::columns];
};

// Which tile is a block's: r fastest, then j and i, whose rows lie side by side in memory, then n.
template <class Tile>
struct SinglePlace {
  int r, n, i, j;
  __host__ __device__ SinglePlace(const GemmTask& task, int tile) {
    const int planes = task.tiles / (task.row_tiles * task.column_tiles);
    const int rest = tile / task.column_tiles, plane = rest % planes;
    r = tile % task.column_tiles * Tile::columns;
    n = rest / planes * Tile::rows;
    i = plane / task.groups_j, j = plane % task.groups_j;
  }
};

// What a block has in shared memory.
template <class Tile>
struct SingleMemory {
  unsigned char *x, *weight;
  SingleShared<Tile>* shared;
  __device__ SingleMemory(const GemmTask& task, unsigned char* unaligned) {
    x = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
    weight = x + task.x_bytes;
    shared = reinterpret_cast<SingleShared<Tile>*>(weight + task.k_steps * Tile::weight_bytes);
  }
};

// Before anything is read from device memory: the barriers, each of which so many bytes of its step complete.
template <class Tile>
__device__ void begin_single(const GemmTask& task, const SingleMemory<Tile>& memory, int bytes) {
  if (threadIdx.x < task.k_steps) memory.shared->full[threadIdx.x].init(1), publish_barriers();
  __syncthreads();
  if (threadIdx.x < task.k_steps) memory.shared->full[threadIdx.x].arrive_expecting(bytes);
  wait_for_kernels_before();
}

// Box `block` of 64 n of a step follows those of the steps before.
template <class Tile, bool ROWS_CONTIGUOUS>
__device__ void fetch_x(const GemmTask& task, const SingleMemory<Tile>& memory, const SinglePlace<Tile>& place,
                        int step) {
  for (int block = 0; block < Tile::blocks; ++block)
    load_box<ROWS_CONTIGUOUS>(memory.x + (step * Tile::blocks + block) * gemm_box, task.x, task.x_keep,
                              memory.shared->full[step], place.n + block * gemm_rows, step * gemm_step, place.i,
                              place.j);
}

// A thread of one warp asks for X, and one of another for W: each box takes a thread some hundred cycles to ask for.
template <class Tile, bool ROWS_CONTIGUOUS>
__device__ void fetch_single(const GemmTask& task, const SingleMemory<Tile>& memory, const SinglePlace<Tile>& place) {
  if (threadIdx.x == 0)
#pragma unroll 1
    for (int step = 0; step < task.k_steps; ++step) fetch_x<Tile, ROWS_CONTIGUOUS>(task, memory, place, step);
  if (threadIdx.x == 32)
#pragma unroll 1
    for (int step = 0; step < task.k_steps; ++step)
      load(memory.weight + step * Tile::weight_bytes, task.weight, memory.shared->full[step], Keep::last_out,
           step * gemm_step, place.r, place.j, place.i);
}

// Asks for the same into the L2 cache, as prefetch_pairs(). For all blocks, of which most begin later, that measured 2
// to 5 % slower.
template <class Tile, bool ROWS_CONTIGUOUS>
__device__ void prefetch_single(const GemmTask& task, const SinglePlace<Tile>& place) {
  for (int k = 0; k < task.k_steps * gemm_step; k += gemm_step) {
    for (int block = 0; block < Tile::blocks; ++block)
      prefetch_x<ROWS_CONTIGUOUS>(task, place.n + block * gemm_rows, k, place.i, place.j);
    prefetch_box(task.weight, Keep::last_out, k, place.r, place.j, place.i);
  }
}

// All sums of the tile, which begin with the bias.
template <class T, class Tile, bool ROWS_CONTIGUOUS>
__device__ void multiply_single(const GemmTask& task, const SingleMemory<Tile>& memory,
                                float (&sums)[Tile::blocks][Tile::columns / 2]) {
#pragma unroll
  for (int block = 0; block < Tile::blocks; ++block)
    start_sums<T, Tile::columns>(sums[block], task.bias == nullptr ? nullptr : memory.shared->bias);
  int step = 0;
  do {  // once at least: a loop that may be left out makes the compiler serialise the products
    memory.shared->full[step].wait(0);
    begin_products();
#pragma unroll
    for (int block = 0; block < Tile::blocks; ++block)
      multiply_stage<T, Tile::columns, ROWS_CONTIGUOUS>(
          sums[block], shared_address(memory.x + (step * Tile::blocks + block) * gemm_box),
          shared_address(memory.weight + step * Tile::weight_bytes));
    commit_products();
  } while (++step < task.k_steps);
  wait_for_products<0>();
#pragma unroll
  for (int block = 0; block < Tile::blocks; ++block) fence_sums<Tile::columns>(sums[block]);
}

// Brings the sums to `boxes`.
template <class T, class Tile, bool ROWS_CONTIGUOUS>
__device__ void put_single(unsigned char* boxes, const float (&sums)[Tile::blocks][Tile::columns / 2]) {
#pragma unroll
  for (int block = 0; block < Tile::blocks; ++block)
#pragma unroll
    for (int column = 0; column < Tile::columns; column += 16)
      Outlet<T, ROWS_CONTIGUOUS, 2>::put_columns(shared_address(boxes + Tile::box_of(block, column) * gemm_box),
                                                 column % 64, &sums[block][column / 2]);
}

// Brings the boxes to Y; each is stored by a thread of its own.
template <class Tile, bool ROWS_CONTIGUOUS>
__device__ void store_single(const GemmTask& task, const SinglePlace<Tile>& place, unsigned char* boxes) {
  fence_for_engines();
  __syncthreads();
  const int box = threadIdx.x, r = place.r + Tile::r_of_box(box);
  if (box >= Tile::boxes || r >= task.b) return;
  store_box<ROWS_CONTIGUOUS>(task, boxes + box * gemm_box, place.n + Tile::n_of_box(box), r, place.i, place.j);
  commit_stores();
  wait_for_store_reads<0>();
}

template <class T, class Tile, bool ROWS_CONTIGUOUS>
__global__ __launch_bounds__(Tile::threads) void single_kernel(const __grid_constant__ GemmTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char unaligned[];
  const SingleMemory<Tile> memory(task, unaligned);
  const SinglePlace<Tile> place(task, static_cast<int>(blockIdx.x));
  if (threadIdx.x == 32) prefetch_map(task.x), prefetch_map(task.weight), prefetch_map(task.y);
  if (threadIdx.x == 64 && static_cast<int>(blockIdx.x) < task.ahead)
    prefetch_single<Tile, ROWS_CONTIGUOUS>(task, place);
  begin_single(task, memory, Tile::blocks * gemm_box + Tile::weight_bytes);
  BiasFetch<Tile::columns> fetch;
  fetch.read(task, place.r, place.i, place.j);  // ahead of X, which takes a thread longer to ask for than this to come
  fetch_single<Tile, ROWS_CONTIGUOUS>(task, memory, place);
  __syncwarp();
  fetch.write(task, memory.shared->bias, 1);
  float sums[Tile::blocks][Tile::columns / 2];
  multiply_single<T, Tile, ROWS_CONTIGUOUS>(task, memory, sums);
  __syncthreads();  // all have read X
  put_single<T, Tile, ROWS_CONTIGUOUS>(memory.x, sums);
  store_single<Tile, ROWS_CONTIGUOUS>(task, place, memory.x);
#endif
}

}  // namespace ksmm::hopper
