// The gemm kernel whose blocks stay with a matrix (gemm_resident.cuh): its tiles, and which of them a block has.
#pragma once

#include <algorithm>

#include "gemm_epilogue.cuh"

namespace ksmm::hopper {

// Warpgroups that take 64 n by COLUMNS r in turns: three of 192 columns have registers enough, and write beside more
// products than two.
template <int COLUMNS_>
struct ResidentTile {
  static constexpr int columns = COLUMNS_;  // r
  static constexpr int warpgroups = columns == 192 ? 3 : 2;
  static constexpr int consumers = 128 * warpgroups;
  // Blocks of a multiprocessor that there are registers for: the next kernel's may begin beside this one's.
  static constexpr int at_a_time = columns == 128 ? 2 : 1;
  // 96 sums and all else are a few more registers than four warps of a quarter of the multiprocessor may have: a
  // warpgroup more hands some over.
  static constexpr bool hands_registers = columns == 192;
  static constexpr int threads = consumers + (hands_registers ? 128 : 32);
  static constexpr int registers = 152, helper_registers = 24;
  static_assert(!hands_registers || registers_suffice<consumers, registers, 128, helper_registers>,
                "or a warpgroup would wait for ever");
  // How the matrix is made (spread_weight): c of up to 64 at a time.
  static constexpr int spread_rows = consumers / 4, spread_parts = 2;
  static constexpr int weight_bytes = columns * 128;
  static constexpr int boxes = 2;  // of a warpgroup's outlet
  static constexpr int outlet_bytes = boxes * gemm_box;
  static constexpr int staging_bytes = warpgroups * outlet_bytes;
  static constexpr int most_stages = 20, least_stages = 4;
  static constexpr int busy_stages = 8;  // memory is busy with 64 KB on their way to each multiprocessor
  static constexpr int slack = 2560;     // barriers, the bias, and the alignment of the swizzle
  static_assert(columns % 64 == 0 && columns <= 256, "boxes of Y do not reach into the next tile");
  static_assert(most_stages <= 32, "a lane makes the barriers of a stage");

  static int64_t shared_bytes(int64_t k_steps, int64_t stages) {
    return slack + stages * gemm_box + k_steps * weight_bytes + staging_bytes;
  }

  // As many as there is room for and `needed`, or nearly so many where two blocks then fit on a multiprocessor; fewer
  // than least_stages where the matrix leaves no room.
  static int stages(int64_t k_steps, int64_t needed, int64_t shared_limit) {
    constexpr int64_t of_block = 1024;  // that the system takes
    const int64_t rest = shared_bytes(k_steps, 0), wanted = std::min<int64_t>(needed, busy_stages);
    const int64_t half = ((shared_limit + of_block) / 2 - of_block - rest) / gemm_box;
    const bool halves = at_a_time == 2 && half >= least_stages && 4 * half >= 3 * wanted;
    const int64_t room = halves ? half : (shared_limit - rest) / gemm_box;
    return static_cast<int>(std::min<int64_t>({room, std::max<int64_t>(needed, least_stages), most_stages}));
  }
};

template <class Tile>
struct ResidentShared {
  Barrier full[Tile::most_stages], empty[Tile::most_stages];
  Barrier turn[Tile::warpgroups];        // whether all products of the tile before have begun
  Barrier made;                          // whether the matrix and its bias are there
  alignas(8) float bias[Tile::columns];  // zeros where there is none

  // By the first threads of the block; a stage is read by one warpgroup.
  __device__ void init(int stages) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < stages) full[thread].init(1), empty[thread].init(1);
    if (thread < Tile::warpgroups) turn[thread].init(128);
    if (thread == 0) made.init(Tile::consumers);
    if (thread < 32) publish_barriers();
  }
};

// The tiles of a block, of which all have nearly the same number. They follow each other along n, then r, then i, so
// that a block has few matrices.
struct ResidentRange {
  int first, last;
  __host__ __device__ ResidentRange(int tiles, int block, int blocks)
      : first(static_cast<int>(int64_t{block} * tiles / blocks)),
        last(static_cast<int>((int64_t{block} + 1) * tiles / blocks)) {}
};

// The matrix that a tile is multiplied by.
template <class Tile>
struct ResidentPlace {
  int first, r, i;  // first: the tile of the matrix with n = 0
  __host__ __device__ ResidentPlace(const GemmTask& task, int tile) {
    const int matrix = tile / task.row_tiles;
    first = matrix * task.row_tiles;
    i = matrix / task.column_tiles, r = matrix % task.column_tiles * Tile::columns;
  }
  __host__ __device__ int n_of(int tile) const { return (tile - first) * gemm_rows; }
};

// As many blocks as multiprocessors; or fewer, where each then has one matrix and takes no longer than one that makes
// two would.
inline int resident_blocks(int64_t row_tiles, int64_t matrices, int multiprocessors) {
  constexpr int64_t of_matrix = 2;  // tiles that take as long as making one
  const int64_t tiles = row_tiles * matrices, all = std::min<int64_t>(tiles, multiprocessors);
  const int64_t whole = std::min(all / matrices, row_tiles) * matrices;
  const auto most = [&](int64_t blocks) { return (tiles + blocks - 1) / blocks; };
  return static_cast<int>(whole > 0 && most(whole) <= most(all) + of_matrix ? whole : all);
}

}  // namespace ksmm::hopper
