// What a block of the exchange kernels is told, where its tiles are, and what of them lies in shared memory.
#pragma once

#include "gemm_task.cuh"

namespace ksmm::hopper {

constexpr int exchange_cluster = 8;        // blocks
constexpr int exchange_buffers = 2;        // tiles whose sums are kept: one is written while the next one is multiplied
constexpr int exchange_multipliers = 256;  // threads

// The sums of a tile, rounded: planes of a block by n by r. Rows of 64 and 128 r are swizzled, others padded.
template <int COLUMNS, int PLANES, int ROWS>
struct ExchangeSums {
  static constexpr int columns = COLUMNS, planes = PLANES, rows = ROWS;
  static constexpr int group = PLANES * exchange_cluster;   // j of a cluster
  static constexpr int own_rows = ROWS / exchange_cluster;  // n that a block writes
  static constexpr bool swizzled = COLUMNS % 64 == 0;
  static constexpr int pitch = COLUMNS * 2 + (swizzled ? 0 : 16);
  static constexpr int tile_bytes = PLANES * ROWS * pitch, sums_bytes = exchange_buffers * tile_bytes;
  static constexpr int slack = 1024 + 256 + 8 * COLUMNS;  // alignment, barriers, bias
  static_assert(COLUMNS % 16 == 0 && COLUMNS <= 128,
                "stmatrix takes 16 columns, and a thread has 64 registers of sums");
  static_assert(group % 8 == 0, "16 bytes of Y are eight j");
};

// X comes plane by plane. A block has PLANES values of j, one after another, of 128 n by COLUMNS r; those of a cluster
// are neighbours in Y, and have the same n and r.
template <int COLUMNS, int PLANES>
struct ExchangeTile : ExchangeSums<COLUMNS, PLANES, 2 * gemm_rows> {
  using Sums = ExchangeSums<COLUMNS, PLANES, 2 * gemm_rows>;
  static constexpr int writers = 128;  // threads, for each buffer
  static constexpr int threads = exchange_multipliers + exchange_buffers * writers + 128;
  static constexpr int x_bytes = 2 * gemm_box, weight_bytes = COLUMNS * 128;
  static constexpr int fitting = (227 * 1024 - Sums::slack - Sums::sums_bytes) / (x_bytes + weight_bytes);
  static constexpr int stages = fitting < 8 ? fitting : 8;
  static constexpr int shared_bytes = Sums::slack + Sums::sums_bytes + stages * (x_bytes + weight_bytes);
  static_assert(stages >= 3, "one is multiplied, one is on its way, one is being given back");
};

// X comes as it is, with j fastest. A block has two values of j of 64 n by COLUMNS r. Of 64 k at a time it fetches
// eight n and the 16 j of the cluster (RAWS at a time), and gets 64 n of its own planes from all blocks (OPERANDS at a
// time); it holds WEIGHTS steps of W.
template <int COLUMNS, int RAWS, int OPERANDS, int WEIGHTS>
struct RegroupTile : ExchangeSums<COLUMNS, 2, gemm_rows> {
  using Sums = ExchangeSums<COLUMNS, 2, gemm_rows>;
  static constexpr int raws = RAWS, operands = OPERANDS, weights = WEIGHTS;
  static constexpr int writers = 96;      // threads, for each buffer
  static constexpr int regroupers = 128;  // threads: eight j of a k each
  static constexpr int threads = exchange_multipliers + exchange_buffers * writers + regroupers + 64;
  static constexpr int raw_bytes = Sums::own_rows * gemm_step * Sums::group * 2;
  static constexpr int operand_bytes = 2 * gemm_box, weight_bytes = 2 * COLUMNS * 128;
  static constexpr int shared_bytes =
      Sums::slack + Sums::sums_bytes + RAWS * raw_bytes + OPERANDS * operand_bytes + WEIGHTS * weight_bytes;
  static_assert(shared_bytes <= 227 * 1024, "the shared memory of a multiprocessor");
  static_assert(threads <= 640, "96 registers a thread");
  static_assert(WEIGHTS >= 2, "a step is given back when the next one's products have begun");
};

struct ExchangeTask {
  GemmTask gemm;  // x, weight, bias, b, groups_j (d), k_steps, row_tiles, column_tiles, tiles (of clusters)
  uint16_t* y;    // [n][i][r][j]
  int64_t y_row;  // elements from one n to the next
  int rows;       // n
  int groups;     // of j
  int near_rows;  // tiles of n that are taken for one group before the next one
};

// The tiles of a cluster.
__device__ inline int first_tile() { return static_cast<int>(blockIdx.x) / exchange_cluster; }
__device__ inline int tile_stride() { return static_cast<int>(gridDim.x) / exchange_cluster; }

// Where a tile of a cluster is. r fastest, so that clusters that share X run at the same time; then some tiles of n,
// for which W is read again from the L2 cache; then j, so that the cache sees whole lines of Y.
template <class Tile>
struct ExchangePlace {
  int r, n, i, j;  // j: the cluster's first plane
  __host__ __device__ ExchangePlace(const ExchangeTask& task, int tile) {
    const int columns = task.gemm.column_tiles, rows = task.gemm.row_tiles;
    const int of_i = rows * task.groups * columns, of_run = task.near_rows * task.groups * columns;
    i = tile / of_i, tile %= of_i;
    const int first_row = tile / of_run * task.near_rows;
    tile %= of_run;
    const int left = rows - first_row, near_rows = left < task.near_rows ? left : task.near_rows;
    r = tile % columns * Tile::columns, tile /= columns;
    n = (first_row + tile % near_rows) * Tile::rows;
    j = tile / near_rows * Tile::group;
  }
};

}  // namespace ksmm::hopper
