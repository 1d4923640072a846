// What a block of the gemm kernels is told, and where its tiles are.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "copy.cuh"

namespace ksmm::hopper {

constexpr int gemm_step = 64;          // k of a stage: 128 bytes, the widest swizzle
constexpr int gemm_rows = 64;          // n that a matrix instruction takes
constexpr int gemm_part = 32;          // rows of a box of Y that are stored at a time (alternating, wide)
constexpr int gemm_run = 128;          // n of such a row (wide)
constexpr int gemm_box = 64 * 64 * 2;  // bytes of 64 n by 64 k of X, and of 64 n by 64 r of Y

// What of W a cluster's ring of stages has of the tiles before (PairSteps): nothing where no steps are said.
struct WeightInRing {
  int after = 0;         // how many tiles with the same W the cluster must have had
  int from = 0, to = 0;  // steps of a tile, from one on, up to another, that find W in the ring
  int shift = 0;         // how many steps of c after the beginning of the tile before a tile begins
};

struct GemmTask {
  CUtensorMap x;       // (n, j, k, i) with rows contiguous, else (k, n, j, i)
  CUtensorMap weight;  // (k, r, j, i)
  CUtensorMap y;       // as x
  const void* bias;
  Keep y_keep = Keep::first_out;  // in the L2 cache (say_what_stays)
  int b, groups_j;
  int k_steps;    // stages of a tile
  int row_tiles;  // tiles of n, or pairs of them in clusters
  int column_tiles;
  int tiles;        // in all
  int x_bytes;      // of shared memory that X has, and Y after it (single)
  int ahead;        // blocks, from the first on, that ask for what they read while the kernel before ends
  int teams = 1;    // of clusters (PairShare)
  int abreast = 1;  // tiles of r that clusters side by side have, each one for all its tiles
  // By how many r groups of tiles with the same n turn after so many tiles in all (PairPlace, of tiles in teams).
  unsigned turn = 0;
  int turn_every = 1;
  WeightInRing in_ring;
  // Neighbouring j that clusters side by side have before another r and n (PairPlace). This and what follows are where
  // they are for ptxas, which further up serialises the products of 256 columns (tests/cuda/test_compiles.py).
  int planes = 1;
  Keep x_keep = Keep::normal;  // as y_keep
};

struct WideTask : GemmTask {
  // (n % gemm_run, n / gemm_run, j, r, i), without what of a row is no whole run: y has that, in boxes of the same
  // form. Neither is described that no box is stored to.
  CUtensorMap y_runs;
  int rows;  // n in all
};

// Of W spread over d planes: features are k d + j of X, and r d + j of Y.
struct SpreadTask : GemmTask {
  const void* w;  // as it is stored, with k contiguous
  int64_t w_i, w_r, w_j;
  const void* x_rows;
  int64_t x_stride;  // from one n to the next
  int rows, c, d;
  uint32_t inverse_d;  // 2^32 / d, rounded up
};

// The same for blocks that stay.
struct ResidentTask : SpreadTask {
  int stages;
  void* y_rows;
  int64_t y_i, y_stride;  // from one i to the next, and from one n
};

}  // namespace ksmm::hopper
