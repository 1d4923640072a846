// The way of the streamed fused kernel from the sums of the inner factor to Z, the operand of the outer one.
#pragma once

#include "fused_streamed_tile.cuh"
#include "gemm_epilogue.cuh"

namespace ksmm::hopper {

// Sums become neighbours of their plane in Z. Which of them belong to a block depends on what is left of i: of
// pairs of k of a plane, one may be the neighbour's.
template <class T, class Tile>
struct StreamedBetween {
  uint32_t plane_bytes, swizzle;                  // from plane to plane of Z
  uint32_t planes[Tile::cycle], ks[Tile::cycle];  // of the lane's columns, from the first plane and first_k on
  uint32_t own[Tile::remainders];  // bit q: the first of columns q belongs to the block; bit 16 + q: the second alone

  __device__ StreamedBetween(const FusedStreamedTask& task, uint32_t z) {
    const int lane = threadIdx.x % 32, of_warpgroup = threadIdx.x % 128 / 32 * 16 + lane / 4;
    const uint32_t row = z + of_warpgroup * streamed_row;  // the lane's first of Z
    plane_bytes = task.outer_boxes * Tile::box_bytes, swizzle = of_warpgroup / 2 % 4 * 16;
#pragma unroll
    for (int at = 0; at < Tile::cycle; ++at) {
      const int column = 8 * at + lane % 4 * 2;
      planes[at] = row + column / Tile::span * plane_bytes, ks[at] = column % Tile::span;
    }
#pragma unroll
    for (int i = 0; i < Tile::remainders; ++i) {
      own[i] = 0;
#pragma unroll
      for (int q = 0; q < Tile::inner_columns / 8; ++q) {
        const int column = 8 * q + lane % 4 * 2, plane = column / Tile::span;
        const int feature = (Tile::first_k(i) + column % Tile::span) * Tile::j + plane - i * Tile::b;
        if (feature >= 0 && feature < Tile::b) own[i] |= 1u << q;
        if (feature < 0 && feature + Tile::j >= 0) own[i] |= 1u << (16 + q);
      }
    }
  }

  // Rounds the sums of block i, which follow those of block i - 1, and writes those that are the block's.
  __device__ void put(const float (&sums)[Tile::inner_columns / 2], int i) {
    uint32_t places[Tile::cycle];
#pragma unroll
    for (int at = 0; at < Tile::cycle; ++at) {
      const uint32_t k = static_cast<uint32_t>(Tile::first_k(i)) + ks[at];
      places[at] = planes[at] + k / streamed_step * Tile::box_bytes + ((k / 8 % 4 * 16) ^ swizzle) + k % 8 * 2;
    }
#pragma unroll
    for (int q = 0; q < Tile::inner_columns / 8; ++q) {
      const uint32_t to = places[q % Tile::cycle] + q / Tile::cycle * Tile::cycle_planes * plane_bytes;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const uint32_t pair = pack_pair<T>(sums[4 * q + 2 * h], sums[4 * q + 2 * h + 1]);
        const uint32_t at = to + 8 * h * streamed_row;
        if constexpr (Tile::whole_pairs) {
          asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(pair) : "memory");
        } else {
          // Of a pair whose second belongs to a later block, that is written again then.
          if (own[0] >> q & 1) asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(pair) : "memory");
          if (own[0] >> (16 + q) & 1)
            asm volatile("st.shared.b16 [%0 + 2], %1;" ::"r"(at), "h"(uint16_t(pair >> 16)) : "memory");
        }
      }
    }
    __syncwarp();  // other lanes write the next block's half of a pair
    const uint32_t used = own[0];
#pragma unroll
    for (int at = 1; at < Tile::remainders; ++at) own[at - 1] = own[at];
    own[Tile::remainders - 1] = used;
  }
};

}  // namespace ksmm::hopper
