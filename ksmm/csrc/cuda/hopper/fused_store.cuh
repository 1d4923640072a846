// The fused kernel's way from its sums to Y: planes of them become neighbours in Y.
#pragma once

#include "../bytes.cuh"
#include "fused_tile.cuh"
#include "gemm_epilogue.cuh"
#include "warp_bias.cuh"

namespace ksmm::hopper {

// The bias of a plane's sums, zero where there is none: read while the plane before is multiplied.
template <class T, class Tile>
struct FusedBias {
  WarpBias<Tile::columns, 1> of_warp;

  __device__ void read(const FusedTask& task, int plane, int r) {
    of_warp.fetch(static_cast<int>(threadIdx.x) % 32, [&](int column, int) {
      const int own = r + column;
      return task.bias != nullptr && own < task.b ? to_float<T>(__ldg(task.bias + own * Tile::j + plane)) : 0;
    });
  }

  // Sums start from it. All lanes of the warp call it.
  __device__ void start(float (&sums)[Tile::columns / 2]) const {
#pragma unroll
    for (int q = 0; q < Tile::columns / 4; ++q)  // rows g and g + 8
      sums[q / 2 * 4 + q % 2] = sums[q / 2 * 4 + q % 2 + 2] = of_warp.of(q, 0, threadIdx.x % 32);
  }
};

// Rounds the sums of a plane: packed[2 q + h] holds columns 8 q + 2 t and the next, of row g + 8 h.
template <class T, class Tile>
__device__ inline void pack_plane(uint32_t (&packed)[Tile::columns / 4], const float (&sums)[Tile::columns / 2]) {
#pragma unroll
  for (int at = 0; at < Tile::columns / 4; ++at) packed[at] = pack_pair<T>(sums[2 * at], sums[2 * at + 1]);
}

// The J numbers of one (n, r), which are neighbours in Y: of the even r of a pair, or of the odd one.
template <class Tile>
__device__ inline void gather_planes(uint32_t (&words)[Tile::j / 2],
                                     const uint32_t (&packed)[Tile::j][Tile::columns / 4], int at, int odd) {
#pragma unroll
  for (int word = 0; word < Tile::j / 2; ++word)
    words[word] = halves_of(packed[2 * word][at], packed[2 * word + 1][at], odd != 0);
}

// Exchanges WORDS words with the lane next to it: the even lane gives `second` and the odd one `first`, so that the
// even one has both lanes' `first`, and the odd one both lanes' `second`, in the order of the lanes.
template <int WORDS>
__device__ inline void exchange(uint32_t (&first)[WORDS], uint32_t (&second)[WORDS]) {
  const bool odd = threadIdx.x % 2;
#pragma unroll
  for (int word = 0; word < WORDS; ++word) {
    const uint32_t other = __shfl_xor_sync(~0u, odd ? first[word] : second[word], 1);
    if (odd)
      first[word] = other;
    else
      second[word] = other;
  }
}

// Writes 16 bytes a thread, so that neighbouring lanes fill whole sectors. packed: as pack_plane leaves it. n: of the
// lane's first row.
template <class Tile>
__device__ inline void store_planes(const uint32_t (&packed)[Tile::j][Tile::columns / 4], const FusedTask& task,
                                    int64_t n, int r) {
  const int t = threadIdx.x % 4, odd = t % 2;
  const int64_t features = static_cast<int64_t>(task.b) * Tile::j;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    uint16_t* row = task.y + (n + 8 * h) * features;
    const bool there = n + 8 * h < task.batch;
    const auto write = [&](int own, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3) {
      if (there && own < task.b) *reinterpret_cast<uint4*>(row + own * Tile::j) = make_uint4(w0, w1, w2, w3);
    };
#pragma unroll
    for (int q = 0; q < Tile::columns / 8; ++q) {
      const int at = 2 * q + h, first = r + 8 * q;
      if constexpr (Tile::j == 2) {  // two q at a time: the even lane writes four r of the first one
        if (q % 2) continue;
        uint32_t one[2], two[2];
#pragma unroll
        for (int next = 0; next < 2; ++next) {
          one[next] = halves_of(packed[0][at], packed[1][at], next != 0);
          two[next] = halves_of(packed[0][at + 2], packed[1][at + 2], next != 0);
        }
        exchange<2>(one, two);
        write(first + 8 * odd + t / 2 * 4, one[0], one[1], two[0], two[1]);
      } else {
        uint32_t one[4], two[4];
        gather_planes<Tile>(one, packed, at, 0), gather_planes<Tile>(two, packed, at, 1);
        exchange<4>(one, two);
        const int even = first + 2 * (t - odd) + odd;  // and the r two further
        write(even, one[0], one[1], one[2], one[3]);
        write(even + 2, two[0], two[1], two[2], two[3]);
      }
    }
  }
}

}  // namespace ksmm::hopper
