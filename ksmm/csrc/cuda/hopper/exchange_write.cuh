// The way of sums to Y in the exchange kernels: rounded to shared memory, from there to the blocks of the cluster that
// write their rows, and with j fastest to device memory.
#pragma once

#include "../bytes.cuh"
#include "exchange_tile.cuh"
#include "gemm_epilogue.cuh"

namespace ksmm::hopper {

struct ExchangeBarriers {
  Barrier ready[exchange_buffers];  // a tile's sums of all planes, in all blocks
  Barrier taken[exchange_buffers];  // this block's sums, by all blocks

  __device__ void init() {
    for (int buffer = 0; buffer < exchange_buffers; ++buffer)
      ready[buffer].init(2 * exchange_cluster), taken[buffer].init(exchange_cluster);
  }
};

// Where 16 bytes of the sums lie: eight r of an n and of a plane of the block.
template <class Tile>
__host__ __device__ inline uint32_t place_of_sums(int plane, int n, int chunk) {
  const int column = Tile::swizzled ? chunk ^ n % 8 : chunk;
  return (plane * Tile::rows + n) * Tile::pitch + column * 16;
}

// The sums of a warpgroup, of 64 rows from n0 on.
template <class T, class Tile>
__device__ inline void keep_sums(uint32_t kept, int plane, int n0, const float (&sums)[Tile::columns / 2]) {
  const int lane = threadIdx.x % 32, n = n0 + threadIdx.x % 128 / 32 * 16 + lane % 16;
#pragma unroll
  for (int column = 0; column < Tile::columns; column += 16) {
    uint32_t pairs[4];
#pragma unroll
    for (int at = 0; at < 4; ++at) pairs[at] = pack_pair<T>(sums[column / 2 + 2 * at], sums[column / 2 + 2 * at + 1]);
    store_matrices<false>(kept + place_of_sums<Tile>(plane, n, column / 8 + lane / 16), pairs);
  }
}

// Of eight rows of eight elements, the elements of one column: word m holds rows 2 m and 2 m + 1.
__host__ __device__ inline uint4 column_of(const uint32_t (&rows)[8][4], int column) {
  const int word = column / 2;
  const bool upper = column % 2 == 1;
  return {halves_of(rows[0][word], rows[1][word], upper), halves_of(rows[2][word], rows[3][word], upper),
          halves_of(rows[4][word], rows[5][word], upper), halves_of(rows[6][word], rows[7][word], upper)};
}

// Eight r of an n, and eight of the planes, of those that a block writes.
template <class Tile>
struct ExchangeItem {
  static constexpr int parts = Tile::group / 8, chunks = Tile::columns / 8, count = Tile::own_rows * chunks * parts;
  int part, chunk, n;
  __host__ __device__ explicit ExchangeItem(int item)
      : part(item % parts), chunk(item / parts % chunks), n(item / (parts * chunks)) {}
};

// The work of the threads that follow those that multiply. Two groups of them take the tiles in turns, so that one
// waits for its sums while the other writes.
template <class Tile>
__device__ void write_exchanged(const ExchangeTask& task, ExchangeBarriers& barriers, uint32_t kept) {
  const int first_row = static_cast<int>(rank_in_cluster()) * Tile::own_rows, d = task.gemm.groups_j;
  const int thread = static_cast<int>(threadIdx.x) - exchange_multipliers;
  const int writer = thread % Tile::writers, slot = thread / Tile::writers;
  kept += slot * Tile::tile_bytes;
  uint32_t phase = 0;
  for (int tile = first_tile() + slot * tile_stride(); tile < task.gemm.tiles;
       tile += exchange_buffers * tile_stride(), phase ^= 1) {
    const ExchangePlace<Tile> place(task, tile);
    barriers.ready[slot].wait_for_cluster(phase);
    for (int index = writer; index < ExchangeItem<Tile>::count; index += Tile::writers) {
      const ExchangeItem<Tile> item(index);
      const int n = place.n + first_row + item.n, r = place.r + item.chunk * 8;
      if (n >= task.rows || r >= task.gemm.b) continue;
      uint32_t planes[8][4];
#pragma unroll
      for (int at = 0; at < 8; ++at) {
        const int plane = item.part * 8 + at;
        load_from(plane / Tile::planes,
                  kept + place_of_sums<Tile>(plane % Tile::planes, first_row + item.n, item.chunk), planes[at]);
      }
      uint16_t* y =
          task.y + n * task.y_row + (static_cast<int64_t>(place.i) * task.gemm.b + r) * d + place.j + item.part * 8;
#pragma unroll
      for (int of_chunk = 0; of_chunk < 8; ++of_chunk, y += d)
        if (r + of_chunk < task.gemm.b) *reinterpret_cast<uint4*>(y) = column_of(planes, of_chunk);
    }
    synchronize(3 + slot, Tile::writers);  // a store waits for what it writes: all has been read
    if (writer < exchange_cluster) barriers.taken[slot].arrive_at(writer);
  }
}

}  // namespace ksmm::hopper
