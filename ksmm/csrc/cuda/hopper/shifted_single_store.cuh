// The way of the sums of a block of one tile (shifted_single.cuh) to rows of Y, wherever they begin: through shared
// memory, and from there by words that the lanes of a warp write side by side.
#pragma once

#include "../number.cuh"
#include "shifted_tile.cuh"

namespace ksmm::hopper {

// Brings the sums to shared memory: r by r, 64 n each.
template <class T, class Tile>
__device__ void put_shifted_single(unsigned char* y, const float (&sums)[Tile::columns / 2]) {
  const int n = shifted_n(threadIdx.x % 128);
#pragma unroll
  for (int at = 0; at < Tile::columns / 4; ++at) {
    const int r = at / 2 * 8 + threadIdx.x % 4 * 2 + at % 2;
    *reinterpret_cast<uint32_t*>(y + r * Tile::y_pitch + 2 * n) =
        pack_pair<T>(sums[at / 2 * 4 + at % 2], sums[at / 2 * 4 + 2 + at % 2]);
  }
}

// What a lane writes of the rows of Y that its warp has, which all begin at a word or all between two: a pair of
// neighbours by a word, or the first number of a row or the last one alone; and where 64 n begin between words, the
// first lane the last number, too.
struct ShiftedLane {
  int from;     // where the word that its pair ends in is in shared memory, in bytes,
  int before;   // how far before it the word that the pair begins in,
  int between;  // and how many bits the pair begins behind its first word
  int alone;    // how far to shift a pair for a number that is written alone
  int n;        // of the first number that it writes
  bool whole, single, last;

  __host__ __device__ ShiftedLane(int lane, bool odd, int count) {
    const int first = 2 * lane - static_cast<int>(odd);
    from = 4 * lane, before = odd && lane > 0 ? 4 : 0, between = odd ? 16 : 0;
    alone = first < 0 ? 16 : 0, n = first < 0 ? 0 : first;
    whole = first >= 0 && first + 1 < count, single = first < 0 || first + 1 == count;
    last = first < 0 && count == gemm_rows;
  }
};

// The warps of a warpgroup's Y write its rows in turns, and read several before they write them.
template <class Tile>
struct ShiftedWriter {
  static constexpr int rows = Tile::columns / Tile::warps, at_once = 4;
  static_assert(rows % at_once == 0, "or the last turn would read beyond them");
  static_assert(Tile::warps % 2 == 0, "all rows of a warp begin at a word, or all between two");
  ShiftedLane lane;
  uint16_t* to;
  int64_t step;  // from row to row of a warp
  int left;      // rows that there are

  __device__ ShiftedWriter(const ShiftedTask& task, const ShiftedPlace& place) : lane(0, false, 0) {
    const int warp = threadIdx.x / 32 % Tile::warps;
    uint16_t* const row = place.row(task, task.rows_of_y, place.r + warp) + place.n;
    const auto count = static_cast<int>(min(static_cast<int64_t>(Tile::rows), task.batch - place.n));
    lane = ShiftedLane(threadIdx.x % 32, reinterpret_cast<uintptr_t>(row) % 4 != 0, count);
    to = row + lane.n, left = task.b - place.r - warp;
    step = static_cast<int64_t>(task.groups_j) * task.rows_of_y.stride * Tile::warps;
  }

  // What it has is computed where this is called, and nowhere else.
  __device__ void fence() {
    asm volatile(""
                 : "+l"(to), "+l"(step), "+r"(left), "+r"(lane.from), "+r"(lane.before), "+r"(lane.between),
                   "+r"(lane.alone)::"memory");
  }

  __device__ void write(const unsigned char* y) {
    const unsigned char* from = y + threadIdx.x / 32 % Tile::warps * Tile::y_pitch + lane.from;
#pragma unroll 1
    for (int at = 0; at < rows; at += at_once) {
      uint32_t pairs[at_once];
      uint16_t last[at_once];
#pragma unroll
      for (int row = 0; row < at_once; ++row) {
        const unsigned char* const word = from + row * Tile::warps * Tile::y_pitch;
        pairs[row] = __funnelshift_r(*reinterpret_cast<const uint32_t*>(word - lane.before),
                                     *reinterpret_cast<const uint32_t*>(word), lane.between);
        if (lane.last) last[row] = *reinterpret_cast<const uint16_t*>(word + 2 * gemm_rows - 2);
      }
#pragma unroll
      for (int row = 0; row < at_once; ++row, left -= Tile::warps, to += step) {
        if (left <= 0) return;
        if (lane.whole) *reinterpret_cast<uint32_t*>(to) = pairs[row];
        if (lane.single) *to = static_cast<uint16_t>(pairs[row] >> lane.alone);
        if (lane.last) to[gemm_rows - 1] = last[row];
      }
      from += at_once * Tile::warps * Tile::y_pitch;
    }
  }
};

}  // namespace ksmm::hopper
