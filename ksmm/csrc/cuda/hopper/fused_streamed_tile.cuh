// The tiles of the fused kernel that streams X, and what a block of it is told.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <numeric>

#include "copy.cuh"

namespace ksmm::hopper {

constexpr int streamed_step = 32;  // k of a stage
constexpr int streamed_row = 64;   // bytes of these, swizzled
constexpr int streamed_most_slots = 8;
constexpr int streamed_barrier_bytes = 8 * (4 * streamed_most_slots + 1);

// A block computes all features of 64 ROW_GROUPS rows n, a warpgroup those of 64. J is d of the outer factor, B is b of
// the inner one, COLUMNS the r of the outer one whose J planes are multiplied together.
template <int J_, int B_, int ROW_GROUPS_, int COLUMNS_, int BOXES_>
struct FusedStreamedTile {
  static constexpr int j = J_, b = B_, row_groups = ROW_GROUPS_, columns = COLUMNS_;
  static constexpr int n = 64 * ROW_GROUPS_;
  static constexpr int consumers = 128 * ROW_GROUPS_, threads = consumers + 128;
  static constexpr int grown = ROW_GROUPS_ == 3 ? 160 : 240, shrunk = 24;

  // Feature f between the factors is k = f / J of plane f % J. Block i of the inner factor has features B i to
  // B i + B - 1; its sums are those of `span` k of every plane from first_k(i) on, of which the first and the last may
  // belong to its neighbours. Even, so that what lanes hold in pairs stays together.
  static constexpr __host__ __device__ int first_k(int i) { return i * B_ / J_ / 2 * 2; }
  static constexpr int longest_span() {
    int longest = 0;
    for (int i = 0; i < J_; ++i) {
      const int here = (B_ * (i + 1) - 1) / J_ - first_k(i) + 1;
      longest = here > longest ? here : longest;
    }
    return (longest + 1) / 2 * 2;
  }
  static constexpr int span = longest_span(), inner_columns = J_ * span;
  static constexpr int remainders = 2 * J_ / std::gcd(B_, 2 * J_);  // of i: where blocks begin in their pairs of k
  static constexpr bool whole_pairs = remainders == 1;              // no pair belongs to two blocks
  // Sums come in groups of 8 columns: after so many of these, the first is k = first_k again, so many planes later.
  static constexpr int cycle = span / std::gcd(8, span), cycle_planes = 8 * cycle / span;

  static constexpr int box_bytes = n * streamed_row;  // streamed_step features of all n
  static constexpr int inner_bytes = inner_columns * streamed_row, outer_bytes = J_ * COLUMNS_ * streamed_row;
  static constexpr int inner_slot = box_bytes + inner_bytes, outer_slot = outer_bytes;

  // Y leaves through shared memory: of each warp BOXES boxes of 8 rows by 8 r, all planes. Rows of 96 and 192 bytes
  // that are written at the same time begin in banks of their own; rows of 128 are swizzled.
  static constexpr int outlet_boxes = BOXES_, outlet_row = 16 * J_, outlet_box = 8 * outlet_row;
  static constexpr int outlet_swizzle = outlet_row == 128 ? 128 : 0;
  static constexpr int outlet_bytes = 4 * ROW_GROUPS_ * BOXES_ * outlet_box;

  static_assert(ROW_GROUPS_ == 2 || ROW_GROUPS_ == 3, "what the registers are divided among");
  static_assert(J_ % 2 == 0, "planes are packed in pairs");
  static_assert(inner_columns % 8 == 0 && inner_columns <= 128, "columns of one instruction, whose sums fit");
  static_assert(J_ % cycle_planes == 0 && inner_columns / 8 <= 16,
                "how the sums are sorted by planes (StreamedBetween)");
  static_assert(COLUMNS_ % 8 == 0 && COLUMNS_ <= 64, "whole periods of the swizzle for each plane; two r a lane");
  static_assert(J_ * COLUMNS_ <= (ROW_GROUPS_ == 3 ? 192 : 256), "the sums of all planes wait in registers");
  static_assert(inner_slot % 512 == 0 && outer_slot % 512 == 0 && box_bytes % 512 == 0,
                "slots begin with a period of the swizzle");
  static_assert(outlet_box % (outlet_swizzle > 0 ? 1024 : 128) == 0 && outer_slot % 1024 == 0 && box_bytes % 1024 == 0,
                "boxes begin where the copy engine takes them");
};

struct FusedStreamedTask {
  CUtensorMap x;         // (k, i, n) of the inner factor's blocks i
  CUtensorMap inner;     // (k, f / J, f % J), f being a feature between the factors
  CUtensorMap outer;     // (k, r, plane)
  CUtensorMap y;         // (r and plane, n)
  const uint16_t* bias;  // or null
  Keep x_keep;           // in the L2 cache
  int b;                 // of the outer factor
  int blocks;            // of the inner factor: its a
  int inner_boxes;       // of streamed_step k of a block of X
  int outer_boxes;       // of streamed_step k of a plane of Z
  int inner_slots;       // stages in shared memory
  int outer_slots;       // the same, in the same place
  int64_t tiles;         // of n
};

// Shared memory that the stages of both factors and the outlet share.
template <class Tile>
constexpr __host__ __device__ int streamed_place_bytes(int inner_slots, int outer_slots) {
  const int inner = inner_slots * Tile::inner_slot, outer = outer_slots * Tile::outer_slot + Tile::outlet_bytes;
  return inner > outer ? inner : outer;
}

}  // namespace ksmm::hopper
