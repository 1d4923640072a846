// The tile of the fused kernel, and what a block of it is told.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace ksmm::hopper {

constexpr int fused_step = 64;     // k of a stage: rows of 128 bytes, the widest swizzle
constexpr int fused_row = 128;     // bytes of fused_step k
constexpr int fused_slot = 16384;  // bytes of a stage: 128 rows of W, or 64 n of X twice
constexpr int fused_cluster = 2;   // blocks that share both weights, with neighbouring n
constexpr int fused_most_slots = 8;

// A block computes all features of N rows n: first the features Z between the factors, as J planes in shared memory (J
// is d of the outer factor), then Y, 128 r of all planes at a time.
template <int J_, int N_>
struct FusedTile {
  static constexpr int j = J_, n = N_;
  static constexpr int consumers = 256, threads = 384;  // two warpgroups multiply, one thread of a third fetches
  static constexpr int plane_bytes = N_ * fused_row;    // of fused_step k
  static constexpr int box_bytes = J_ * plane_bytes;
  static constexpr int extra_bytes = 1024 + 1024;  // to align to a swizzle's period; "nowhere" and the barriers

  static_assert(J_ == 2 || J_ == 4 || J_ == 8, "64 rows of the inner factor have multiples of 8 k of each plane");
  static_assert(N_ == 32 || N_ == 64, "two boxes of X fill a stage at most");

  static constexpr int64_t boxes(int64_t c) { return (c + fused_step - 1) / fused_step; }
  static constexpr int64_t slots(int64_t c, int64_t shared_limit) {
    const int64_t room = (shared_limit - extra_bytes - boxes(c) * box_bytes) / fused_slot;
    return room < fused_most_slots ? room : fused_most_slots;
  }
  static constexpr int64_t shared_bytes(int64_t c, int64_t slots) {
    return boxes(c) * box_bytes + slots * fused_slot + extra_bytes;
  }
};

struct FusedTask {
  CUtensorMap x;         // (k, i, n) of the inner factor's blocks i
  CUtensorMap inner;     // (k, row of a plane, plane, i)
  CUtensorMap outer;     // (k, r, plane)
  const uint16_t* bias;  // or null
  uint16_t* y;
  int64_t batch;
  int b, c;         // of the outer factor
  int boxes;        // of Z: steps of its c
  int inner_steps;  // of the inner factor's c
  int groups;       // of 64 rows of the inner factor, in all
  int groups_of_block;
  int plane_rows;  // of a block i, of one plane
  int slots;       // stages in shared memory
  int64_t tiles;   // of clusters
};

}  // namespace ksmm::hopper
