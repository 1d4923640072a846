// The gemm kernel whose warpgroups take turns (gemm_alternating.cuh): its tiles, and the way of their sums to Y.
#pragma once

#include <type_traits>

#include "gemm_epilogue.cuh"

namespace ksmm::hopper {

// Two warpgroups with 128 n by COLUMNS r each, in clusters of two that share W. WIDE: Y in batch_last leaves in rows of
// 256 bytes (WideOutlet) instead of 128. Five stages of 192 columns leave room for boxes of half the height.
template <int COLUMNS_, int STAGES_, bool WIDE_>
struct AlternatingTile {
  static constexpr int columns = COLUMNS_;  // r
  static constexpr int stages = STAGES_;
  static constexpr bool wide = WIDE_;
  static constexpr int blocks = 2;  // of 64 n, of a warpgroup
  static constexpr int warpgroups = 2;
  static constexpr int cluster = 2;
  static constexpr int consumers = 128 * warpgroups;
  static constexpr bool in_teams = false;
  // 192 sums and all else are more registers than each of 288 threads may have: a third warpgroup hands some over.
  static constexpr bool hands_registers = columns > 128;
  static constexpr int threads = consumers + (hands_registers ? 128 : 32);
  static constexpr int registers = 240, helper_registers = 24;
  static_assert(!hands_registers || registers_suffice<consumers, registers, 128, helper_registers, 1>,
                "or a warpgroup would wait for ever");
  static constexpr int x_bytes = blocks * gemm_box;
  static constexpr int weight_bytes = columns * 128;
  // Of a warpgroup's outlet: boxes of 32 or 16 r by 128 n, pairs of boxes of 64 by 64, or single ones.
  static constexpr bool paired = !wide && columns == 128, low = wide && columns == 192 && stages == 5;
  static constexpr int part = low ? gemm_part / 2 : gemm_part;  // r of a box (wide)
  static constexpr int boxes = wide ? (columns == 64 ? 4 : low ? 2 : 3) : paired ? 2 : 3;
  // From row to row of a box: 16 bytes more than there are to store, so that eight rows begin in different banks.
  static constexpr int pitch = 2 * gemm_run + 16;
  static constexpr int box_bytes = wide ? part * pitch : paired ? 2 * gemm_box : gemm_box;
  static constexpr int outlet_bytes = boxes * box_bytes;
  static constexpr int staging_bytes = warpgroups * outlet_bytes;
  static constexpr int shared_bytes = stages * (x_bytes + weight_bytes) + staging_bytes + 2304;
  static_assert(shared_bytes <= 227 * 1024, "the shared memory of a multiprocessor");
  static_assert(box_bytes % 128 == 0 && columns % part == 0, "what the copy engine takes");
  static_assert(columns <= 192, "more sums do not fit into the registers");
  using Task = std::conditional_t<wide, WideTask, GemmTask>;
};

// A warpgroup's way from its sums to Y. Boxes that are neighbours along the contiguous dimension are stored in turns,
// in parts, so that 256 bytes of a row come together; one after the other they would be written more slowly.
template <class T, class Tile, bool ROWS_CONTIGUOUS>
struct AlternatingOutlet {
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
      if (++next == Tile::boxes) next = 0;
      if (sender) wait_for_store_reads<Tile::boxes - 1>();
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
          store_box<true>(task, part, n + of * 64, r + pair * 64 + row, i, j);
        else
          store_box<false>(task, part, n + pair * 64 + row, r + of * 64, i, j);
      }
    commit_stores();
  }
};

// The same box by box, where there is no room for pairs.
template <class T, class Tile, bool ROWS_CONTIGUOUS>
struct SingleBoxOutlet : Outlet<T, ROWS_CONTIGUOUS, Tile::boxes> {
  __device__ void put(const float (&sums)[Tile::blocks][Tile::columns / 2], const GemmTask& task, int n, int r0, int i,
                      int j) {
#pragma unroll
    for (int block = 0; block < Tile::blocks; ++block)
      Outlet<T, ROWS_CONTIGUOUS, Tile::boxes>::template put<Tile::columns>(sums[block], task, n + block * gemm_rows, r0,
                                                                           i, j);
  }
};

// The same for n contiguous, in boxes of 32 or 16 r by 128 n: a row of 256 bytes comes at once, and needs no neighbour.
// Rows of a box are longer in shared memory than in Y: what is beyond a whole run of n is beyond the tensor, and not
// stored.
template <class T, class Tile>
struct WideOutlet {
  static_assert(Tile::blocks * gemm_rows == gemm_run, "a tile is as wide as a box");
  unsigned char* shared;
  int barrier;  // of the warpgroup
  int next = 0;

  __device__ void put(const float (&sums)[Tile::blocks][Tile::columns / 2], const WideTask& task, int n, int r0, int i,
                      int j) {
    const bool sender = threadIdx.x % 128 == 0;
#pragma unroll
    for (int first = 0; first < Tile::columns; first += Tile::part) {
      unsigned char* box = shared + next * Tile::box_bytes;
      if (++next == Tile::boxes) next = 0;
      if (sender) wait_for_store_reads<Tile::boxes - 1>();
      synchronize(barrier, 128);
#pragma unroll
      for (int block = 0; block < Tile::blocks; ++block)
#pragma unroll
        for (int column = 0; column < Tile::part; column += 16)
          put_columns(shared_address(box), column, block * gemm_rows, &sums[block][(first + column) / 2]);
      fence_for_engines();
      synchronize(barrier, 128);
      if (sender) {
        if (is_run(task, n))
          store_keeping(task.y_runs, box, task.y_keep, 0, n / gemm_run, j, r0 + first, i);
        else if (n < task.rows)
          store_keeping(task.y, box, task.y_keep, n, j, r0 + first, i);
        commit_stores();
      }
    }
  }

  // Whether all n of a box are in Y.
  __host__ __device__ static bool is_run(const WideTask& task, int n) { return n + gemm_run <= task.rows; }

  // Of 16 columns of the warp's 16 rows, where row lane % 8 of matrix lane / 8 goes in a box, in bytes; `n` is where
  // the warpgroup's 64 begin.
  __host__ __device__ static int place_of(int column, int n, unsigned thread) {
    const int lane = thread % 32, warp = thread / 32 % 4;
    const int row = lane % 8, half = lane / 8 % 2, quarter = lane / 16;
    return (column + 8 * quarter + row) * Tile::pitch + 2 * (n + 16 * warp + 8 * half);
  }

 private:
  __device__ static void put_columns(uint32_t box, int column, int n, const float* sums) {
    uint32_t pairs[4];
#pragma unroll
    for (int at = 0; at < 4; ++at) pairs[at] = pack_pair<T>(sums[2 * at], sums[2 * at + 1]);
    store_matrices<true>(box + place_of(column, n, threadIdx.x), pairs);
  }
};

}  // namespace ksmm::hopper
