// The way of the streamed fused kernel from its sums to Y: J planes of them become neighbours in Y.
#pragma once

#include "copy.cuh"
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

// A warp's way from its sums to 16 rows of Y: boxes of 8 rows by 8 r of all planes, in a ring, from where the copy
// engine writes whole sectors, and nothing outside of Y. Threads that write by themselves wait for the way to the L2
// cache, 32 bytes a cycle of a multiprocessor, with whatever they are to do next. Y is not asked to leave that cache
// first: a layer by itself would take less time, but a network, where Y is read next, more.
template <class T, class Tile>
struct StreamedOutlet {
  const FusedStreamedTask& task;
  unsigned char* boxes;  // of the warp
  int n;                 // its first row
  int next = 0;

  // Puts the J planes of the lane's two r of an octet into a box.
  static __device__ void put_octet(const float (&sums)[Tile::j][Tile::columns / 2], int octet, int h, uint32_t box) {
    constexpr int j = Tile::j;
    const int lane = threadIdx.x % 32, row = lane / 4;
    uint32_t words[j];
#pragma unroll
    for (int word = 0; word < j; ++word) {
      const int at = 4 * octet + 2 * h + word / (j / 2), plane = 2 * (word % (j / 2));
      words[word] = pack_pair<T>(sums[plane][at], sums[plane + 1][at]);
    }
    const uint32_t to = box + row * Tile::outlet_row, own = lane % 4 * 4 * j;
    const uint32_t swizzle = Tile::outlet_swizzle > 0 ? row * 16 : 0;
#pragma unroll
    for (int word = 0; word < j; word += j % 4 == 0 ? 4 : 2)
      if constexpr (j % 4 == 0)
        store_words(to + ((own + 4 * word) ^ swizzle), words[word], words[word + 1], words[word + 2], words[word + 3]);
      else
        store_words(to + own + 4 * word, words[word], words[word + 1]);
  }

  // Writes COLUMNS r from `first` on. The copy engine may still read the boxes when this returns.
  __device__ void write(const float (&sums)[Tile::j][Tile::columns / 2], int first) {
    const bool sends = threadIdx.x % 32 == 0;
#pragma unroll
    for (int octet = 0; octet < Tile::columns / 8; ++octet) {
      const int r = first + 8 * octet;
      if (r >= task.b) break;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        unsigned char* box = boxes + next * Tile::outlet_box;
        if (++next == Tile::outlet_boxes) next = 0;
        if (sends) wait_for_store_reads<Tile::outlet_boxes - 1>();
        __syncwarp();
        put_octet(sums, octet, h, shared_address(box));
        fence_for_engines();
        __syncwarp();
        if (sends) {
          store(task.y, box, r * Tile::j, n + 8 * h);
          commit_stores();
        }
      }
    }
  }

  // Waits until the copy engine has read all boxes.
  static __device__ void drain() {
    if (threadIdx.x % 32 == 0) wait_for_store_reads<0>();
    __syncwarp();
  }
};

}  // namespace ksmm::hopper
