// What a kernel of the TF32 family is told about one multiplication.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace ksmm::hopper {

// W as sums of two of float16, as prepare_halves writes it: for each tile of W (i, then j, then r) what its stages
// read, one after another; by what the sums of each j and r are to be multiplied; and eight bytes, one of each block
// that wrote it, of which one is set if the tile is too uneven for that. left: for each tile of Y eight bytes, one of
// each warp, of which one is set if it is left to the kernel that follows. handed_out: how many tiles blocks have asked
// for, or null.
struct HalvesOfWeight {
  const char* stages;
  const float* scales;
  const uint64_t* uneven;
  uint64_t* left;
  int* handed_out;
};

struct Tf32Task {
  CUtensorMap x, weight;
  CUtensorMap y;  // batch_first, where whole_vectors
  // The same operands as plain numbers, for the sums that are done again one by one.
  const float* x_data;
  const float* weight_data;
  int64_t x_strides[4];       // of n, i, k, j
  int64_t weight_strides[4];  // of i, r, k, j
  int x_period;               // rows with the same remainder by it begin alike (shifted); a power of two
  const float* bias;          // may be null
  float* y_data;
  int64_t batch;
  int a, b, c, d;
  int row_tiles, batch_tiles, plane_tiles, tiles;  // along b, batch and d, and in all
  bool whole_vectors;                              // rows of Y are multiples of 16 bytes
  HalvesOfWeight halves;                           // null where W is read as it is
};

}  // namespace ksmm::hopper
