// The gemm kernel for X and Y whose rows of n begin at any address: the copy engine takes multiples of 16 bytes only.
//
// Two warpgroups bring X through registers: each 8 n that belong together are in two vectors of 16 bytes, of which
// they are cut out; W comes by the copy engine. Two warpgroups multiply, and write Y row by row.
#pragma once

#include "gemm_epilogue.cuh"
#include "unaligned_task.cuh"

namespace ksmm::hopper {

template <class Tile>
struct UnalignedShared {
  Barrier full[Tile::stages], empty[Tile::stages];
  uint16_t bias[Tile::warpgroups][Tile::columns];

  __device__ void init() {
    for (int stage = 0; stage < Tile::stages; ++stage)
      full[stage].init(Tile::feeders / 32 + 1), empty[stage].init(Tile::warpgroups);
    publish_barriers();
  }
};

// Where a tile is: r fastest, so that X of the next one is in the L2 cache.
struct UnalignedPlace {
  int r, n, i, j;
  __device__ UnalignedPlace(const UnalignedTask& task, int tile, int columns, int rows) {
    const int rest = tile / task.column_tiles, plane = rest / task.row_tiles;
    r = tile % task.column_tiles * columns, n = rest % task.row_tiles * rows;
    i = plane / task.groups_j, j = plane % task.groups_j;
  }
};

// The vector of 16 bytes at an aligned address, without what lies behind the end of X.
__device__ inline uint4 read_vector(const uint16_t* address, const uint16_t* end) {
  if (address + 8 <= end) return __ldg(reinterpret_cast<const uint4*>(address));
  uint32_t words[4] = {};
#pragma unroll
  for (int at = 0; at < 8; ++at)
    if (address + at < end) words[at / 2] |= static_cast<uint32_t>(__ldg(address + at)) << at % 2 * 16;
  return {words[0], words[1], words[2], words[3]};
}

// The 8 elements from `offset` (0 to 7) on of two vectors.
__device__ inline uint4 cut_out(uint4 low, uint4 high, int offset) {
  uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int at = 0; at < 6; ++at) words[at] = offset & 4 ? words[at + 2] : words[at];
#pragma unroll
  for (int at = 0; at < 5; ++at) words[at] = offset & 2 ? words[at + 1] : words[at];
  const uint32_t bits = (offset & 1) * 16;
  return {__funnelshift_r(words[0], words[1], bits), __funnelshift_r(words[1], words[2], bits),
          __funnelshift_r(words[2], words[3], bits), __funnelshift_r(words[3], words[4], bits)};
}

// What a thread brings of a stage, 8 n of the same columns for every 16th k.
template <class Tile>
struct Pieces {
  uint4 low[Tile::pieces], high[Tile::pieces];
  int offsets[Tile::pieces];

  __device__ void read(const UnalignedTask& task, const UnalignedPlace& place, int step, int thread) {
    const int n = place.n + thread % 16 * 8;
    const uint16_t* x = task.x_rows + place.i * task.x_i + place.j * task.x_j + n;
#pragma unroll
    for (int at = 0; at < Tile::pieces; ++at) {
      const int k = step * gemm_step + thread / 16 + at * (Tile::feeders / 16);
      const uint16_t* from = x + k * task.x_k;
      const bool there = k < task.c && n < task.rows;
      offsets[at] = static_cast<int>(reinterpret_cast<uintptr_t>(from) / 2 % 8);
      low[at] = there ? read_vector(from - offsets[at], task.x_end) : uint4{};
      high[at] = there && offsets[at] != 0 ? read_vector(from - offsets[at] + 8, task.x_end) : uint4{};
    }
  }
  // As the copy engine would with a swizzle of 128 bytes: boxes of 64 n, a row for each k.
  __device__ void write(unsigned char* stage, int thread) const {
    unsigned char* box = stage + thread % 16 / 8 * gemm_box;
#pragma unroll
    for (int at = 0; at < Tile::pieces; ++at) {
      const int k = thread / 16 + at * (Tile::feeders / 16);
      *reinterpret_cast<uint4*>(box + k * 128 + (thread % 8 ^ k % 8) * 16) = cut_out(low[at], high[at], offsets[at]);
    }
  }
};

// Fills the ring. The vectors of the next stage are on their way while those of this one are written.
template <class Tile>
__device__ void feed_unaligned(const UnalignedTask& task, UnalignedShared<Tile>& shared, unsigned char* x,
                               unsigned char* weight, int thread) {
  Ring<Tile::stages> ring;
  Pieces<Tile> pieces;
  const auto place_of = [&](int tile) { return UnalignedPlace(task, tile, Tile::columns, Tile::rows); };
  int tile = blockIdx.x, step = 0;
  if (tile < task.tiles) pieces.read(task, place_of(tile), step, thread);
  while (tile < task.tiles) {
    const int next_step = step + 1 == task.k_steps ? 0 : step + 1;
    const int next_tile = next_step == 0 ? tile + static_cast<int>(gridDim.x) : tile;
    Pieces<Tile> next;
    if (next_tile < task.tiles) next.read(task, place_of(next_tile), next_step, thread);
    Barrier& full = shared.full[ring.slot];
    shared.empty[ring.slot].wait(ring.phase ^ 1);
    if (thread == 0) {
      const UnalignedPlace place = place_of(tile);
      full.arrive_expecting(Tile::weight_bytes);
      load(weight + ring.slot * Tile::weight_bytes, task.weight, full, Keep::last_out, step * gemm_step, place.r,
           place.j, place.i);
    }
    pieces.write(x + ring.slot * Tile::x_bytes, thread);
    fence_for_engines();
    __syncwarp();
    if (thread % 32 == 0) full.arrive();
    ring.advance();
    pieces = next, step = next_step, tile = next_tile;
  }
}

// Writes 64 r by 64 n of Y from a box in shared memory: a warp 16 rows, two neighbours at a time where they are in one
// word.
__device__ inline void write_box(const UnalignedTask& task, const unsigned char* box, int n, int r, int i, int j) {
  const int lane = threadIdx.x % 32, first = threadIdx.x / 32 % 4 * 16, left = task.rows - n;
  uint16_t* y = task.y_rows + i * task.y_i + j * task.y_j + n;
#pragma unroll 4
  for (int row = first; row < first + 16; ++row) {
    if (r + row >= task.b) break;
    const auto element = [&](int at) {
      return *reinterpret_cast<const uint16_t*>(box + row * 128 + (at / 8 ^ row % 8) * 16 + at % 8 * 2);
    };
    uint16_t* to = y + (r + row) * task.y_r;
    const int odd = static_cast<int>(reinterpret_cast<uintptr_t>(to) / 2 % 2);
    const int at = 2 * lane + odd;  // the last lane of an odd row has the last element and the first one
    if (at + 1 < 64 && at + 1 < left) {
      *reinterpret_cast<uint32_t*>(to + at) = element(at) | static_cast<uint32_t>(element(at + 1)) << 16;
    } else if (at < left) {
      to[at] = element(at);
    }
    if (odd && lane == 31) to[0] = element(0);
  }
}

template <class T, class Tile>
__device__ void multiply_unaligned(const UnalignedTask& task, UnalignedShared<Tile>& shared, const unsigned char* x,
                                   const unsigned char* weight, unsigned char* staging) {
  const int warpgroup = threadIdx.x / 128, barrier = 1 + warpgroup;
  unsigned char* box = staging + warpgroup * gemm_box;
  float sums[Tile::columns / 2];
  Ring<Tile::stages> ring;
  for (int tile = blockIdx.x; tile < task.tiles; tile += gridDim.x) {
    const UnalignedPlace place(task, tile, Tile::columns, Tile::rows);
    uint16_t* bias = shared.bias[warpgroup];
    BiasFetch<Tile::columns> fetch;
    fetch.read(task, place.r, place.i, place.j);
    fetch.write(task, bias, barrier);
    start_sums<T, Tile::columns>(sums, task.bias == nullptr ? nullptr : bias);
    int last_slot = 0, step = 0;
    do {  // once at least: a loop that may be left out makes the compiler serialise the products
      shared.full[ring.slot].wait(ring.phase);
      begin_products();
      multiply_stage<T, Tile::columns, true>(sums, shared_address(x + ring.slot * Tile::x_bytes + warpgroup * gemm_box),
                                             shared_address(weight + ring.slot * Tile::weight_bytes));
      commit_products();
      wait_for_products<1>();
      if (step > 0 && threadIdx.x % 128 == 0) shared.empty[last_slot].arrive();
      last_slot = ring.slot;
      ring.advance();
    } while (++step < task.k_steps);
    wait_for_products<0>();
    fence_sums<Tile::columns>(sums);
    if (threadIdx.x % 128 == 0) shared.empty[last_slot].arrive();
#pragma unroll
    for (int first = 0; first < Tile::columns; first += 64) {
      synchronize(barrier, 128);  // the box before this one is written
#pragma unroll
      for (int column = 0; column < 64; column += 16)
        Outlet<T, true, 2>::put_columns(shared_address(box), column, &sums[(first + column) / 2]);
      synchronize(barrier, 128);
      if (place.n + warpgroup * gemm_rows < task.rows)
        write_box(task, box, place.n + warpgroup * gemm_rows, place.r + first, place.i, place.j);
    }
  }
}

template <class T, class Tile>
__global__ __launch_bounds__(Tile::threads, 1) void unaligned_kernel(const __grid_constant__ UnalignedTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char unaligned[];
  unsigned char* x = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  unsigned char* weight = x + Tile::stages * Tile::x_bytes;
  unsigned char* staging = weight + Tile::stages * Tile::weight_bytes;
  auto& shared = *reinterpret_cast<UnalignedShared<Tile>*>(staging + Tile::staging_bytes);
  constexpr int multiplying = 128 * Tile::warpgroups;
  if (threadIdx.x == 0) shared.init();
  if (threadIdx.x == 32) prefetch_map(task.weight);
  __syncthreads();
  wait_for_kernels_before();
  if (threadIdx.x < multiplying)
    multiply_unaligned<T, Tile>(task, shared, x, weight, staging);
  else
    feed_unaligned<Tile>(task, shared, x, weight, threadIdx.x - multiplying);
#endif
}

}  // namespace ksmm::hopper
