// The tiles of the fused kernel, and what a block of it is told.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace ksmm::hopper {

constexpr int fused_step = 64;  // k of a stage: rows of 128 bytes, the widest swizzle
constexpr int fused_row = 128;  // bytes of fused_step k
constexpr int fused_most_slots = 16, fused_most_boxes = 16;
constexpr int fused_extra_bytes = 1024 + 1024;  // to align to a swizzle's period, and the barriers

// A block computes all features of 64 ROW_GROUPS rows n. J is d of the outer factor, B is b of the inner one. SPLITS
// warpgroups share 64 n: each takes every SPLITS-th block of the inner factor, and COLUMNS r of the outer one at a
// time.
template <int J_, int B_, int ROW_GROUPS_, int SPLITS_, int COLUMNS_>
struct FusedTile {
  static constexpr int j = J_, b = B_, row_groups = ROW_GROUPS_, splits = SPLITS_, columns = COLUMNS_;
  static constexpr int n = 64 * ROW_GROUPS_;
  static constexpr int warpgroups = ROW_GROUPS_ * SPLITS_;
  static constexpr int consumers = 128 * warpgroups, threads = consumers + 128;
  static constexpr int grown = warpgroups == 3 ? 160 : 240, shrunk = 24;
  static constexpr int box_bytes = n * fused_row;  // fused_step features of all n
  static constexpr int outer_rows = SPLITS_ * COLUMNS_;
  static constexpr int slot_bytes = (outer_rows > B_ ? outer_rows : B_) * fused_row;

  static_assert(warpgroups == 2 || warpgroups == 3, "what the registers are divided among");
  static_assert(J_ == 2 || J_ == 8, "how the neighbours in Y that are written at once come together (store_planes)");
  static_assert(B_ % (8 * J_) == 0 && B_ % 16 == 0, "the sums are written 8 k of a plane at a time, from pairs");
  static_assert(outer_rows % 8 == 0, "whole periods of the swizzle in a stage");
  static_assert(COLUMNS_ % 16 == 0, "the sums are written from pairs of 8 columns");
  static_assert(n <= 256, "a box of the copy engine");
};

struct FusedTask {
  CUtensorMap x;         // (k, i, n) of the inner factor's blocks i
  CUtensorMap inner;     // (k, row of a plane, plane, i)
  CUtensorMap outer;     // (k, r, plane)
  const uint16_t* bias;  // or null
  uint16_t* y;
  int64_t batch;
  int b;            // of the outer factor
  int blocks;       // of the inner factor: its a
  int inner_boxes;  // of fused_step k of a block of X
  int outer_boxes;  // of fused_step k of a plane of Z
  int segments;     // of 16 k of a plane of Z
  int shift;        // 2^shift neighbouring segments of a plane follow each other in Z
  int slots;        // stages in shared memory
  int64_t tiles;    // of n
};

}  // namespace ksmm::hopper
