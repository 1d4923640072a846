// The way of the streamed fused kernel from its sums to Y: J planes of them become neighbours in Y.
#pragma once

#include "fused_streamed_tile.cuh"
#include "gemm_epilogue.cuh"

namespace ksmm::hopper {

// The bias of COLUMNS r of all planes: each warp holds it once, two r a lane, and shuffles it to the lanes that need
// it; read while the columns before are multiplied. 16-byte aligned.
template <class T, class Tile>
struct StreamedBias {
  uint32_t words[Tile::j];

  __device__ void read(const FusedStreamedTask& task, int first) {
    if (task.bias == nullptr) return;
    const int r = first + 2 * (static_cast<int>(threadIdx.x) % 32);
    const bool there = r < first + Tile::columns && r < task.b;
    const auto* from = reinterpret_cast<const uint2*>(task.bias + static_cast<int64_t>(r) * Tile::j);
#pragma unroll
    for (int at = 0; at < Tile::j / 2; ++at) {
      const uint2 two = there ? __ldg(from + at) : make_uint2(0, 0);
      words[2 * at] = two.x, words[2 * at + 1] = two.y;
    }
  }

  // Sums start from it, or from zero. All lanes of the warp call it.
  __device__ void start(float (&sums)[Tile::j][Tile::columns / 2], bool there) const {
#pragma unroll
    for (int plane = 0; plane < Tile::j; ++plane)
#pragma unroll
      for (int at = 0; at < Tile::columns / 2; ++at) sums[plane][at] = 0;
    if (!there) return;
#pragma unroll
    for (int q = 0; q < Tile::columns / 8; ++q)
#pragma unroll
      for (int word = 0; word < Tile::j; ++word) {
        const uint32_t pair = __shfl_sync(~0u, words[word], 4 * q + static_cast<int>(threadIdx.x) % 4);
        const int e = word / (Tile::j / 2), plane = 2 * (word % (Tile::j / 2));
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float value = to_float<T>(static_cast<uint16_t>(pair >> 16 * half));
          sums[plane + half][4 * q + e] = sums[plane + half][4 * q + 2 + e] = value;
        }
      }
  }
};

__device__ inline void store_words(uint32_t address, uint32_t w0, uint32_t w1) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(w0), "r"(w1) : "memory");
}
__device__ inline void store_words(uint32_t address, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(w0), "r"(w1), "r"(w2), "r"(w3)
               : "memory");
}

// A warp's way from its sums to 16 rows of Y. Where a lane reads the outlet and writes to does not depend on r.
template <class T, class Tile>
struct StreamedOutlet {
  uint32_t put, take;  // the lane's places in the outlet of the warp
  uint16_t* y;         // of the warp's first row
  uint32_t offsets[Tile::pieces];
  uint32_t there = 0;  // bit 2 piece + h: the row is one of Y's
  int64_t below;       // from a row to that 8 below, in numbers

  __device__ StreamedOutlet(const FusedStreamedTask& task, uint32_t outlet, int64_t n) {
    const int lane = threadIdx.x % 32;
    const int64_t features = static_cast<int64_t>(task.b) * Tile::j;
    put = outlet + lane / 4 * Tile::outlet_row + lane % 4 * 4 * Tile::j;
    take = outlet + 16 * lane;
    y = task.y + n * features, below = 8 * features;
#pragma unroll
    for (int at = 0; at < Tile::pieces; ++at) {
      const int piece = lane + 32 * at, row = piece / Tile::j;
      offsets[at] = static_cast<uint32_t>(row * features + 8 * (piece % Tile::j));
#pragma unroll
      for (int h = 0; h < 2; ++h)
        if (row < 8 && n + 8 * h + row < task.batch) there |= 1u << (2 * at + h);
    }
  }

  // Writes COLUMNS r from `first` on, of b.
  __device__ void write(const float (&sums)[Tile::j][Tile::columns / 2], int first, int b) const {
    constexpr int j = Tile::j;
#pragma unroll
    for (int q = 0; q < Tile::columns / 8; ++q) {
      if (first + 8 * q >= b) break;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        uint32_t words[j];  // of the lane's two r
#pragma unroll
        for (int word = 0; word < j; ++word) {
          const int at = 4 * q + 2 * h + word / (j / 2), plane = 2 * (word % (j / 2));
          words[word] = pack_pair<T>(sums[plane][at], sums[plane + 1][at]);
        }
#pragma unroll
        for (int word = 0; word < j; word += j % 4 == 0 ? 4 : 2)
          if constexpr (j % 4 == 0)
            store_words(put + 4 * word, words[word], words[word + 1], words[word + 2], words[word + 3]);
          else
            store_words(put + 4 * word, words[word], words[word + 1]);
        __syncwarp();
        uint16_t* to = y + h * below + (first + 8 * q) * j;
#pragma unroll
        for (int at = 0; at < Tile::pieces; ++at)
          if (there >> (2 * at + h) & 1) {
            uint32_t piece[4];
            load_own(take + 512 * at, piece);
            *reinterpret_cast<uint4*>(to + offsets[at]) = make_uint4(piece[0], piece[1], piece[2], piece[3]);
          }
        __syncwarp();
      }
    }
  }
};

}  // namespace ksmm::hopper
