// Brings the sums of a tile of the planes kernel to Y through a chunk of shared memory, or two in turn, from where the
// copy engine writes them.
#pragma once

#include "copy.cuh"
#include "planes_store.cuh"

namespace ksmm::hopper {

// As PlanesStore, chunk after chunk of 8 columns r, [n][r][j] without gaps, of which nothing outside of Y is written.
template <class T, class Tile>
struct PlanesStagedStore {
  static constexpr int P = Tile::planes;
  static constexpr int row_bytes = 16 * Tile::j;  // of a row n in a chunk
  static constexpr int barrier_threads = Tile::split ? 256 : 128;
  // Half of the lanes, those with this bit in the number of their row, put down the second of their columns first, and
  // meet the others in half as many banks.
  static constexpr int swapping_bit = Tile::j % 8 == 0 ? 0 : 2;

  __device__ static void store(const PlanesTask& task, const CUtensorMap& y, char* chunks, const PlanesOrigin& origin,
                               const float (&sums)[P][Tile::r / 2], int warpgroup, int thread, int& turn) {
    const bool issues = thread == 0 && (!Tile::split || warpgroup == 0);
    const int barrier = 1 + (Tile::split ? 0 : warpgroup);
    char* own = chunks + (Tile::split ? 0 : warpgroup * Tile::turns * Tile::chunk_bytes);
    const int first_n = origin.n + (Tile::split ? 0 : warpgroup * 64);
#pragma unroll
    for (int q = 0; q < Tile::r / 8; ++q) {
      if (origin.r + q * 8 >= task.b) break;
      char* chunk = own + turn * Tile::chunk_bytes;
      turn = (turn + 1) % Tile::turns;
      if (issues) wait_for_store_reads<Tile::turns - 1>();
      synchronize(barrier, barrier_threads);
      fill(chunk, sums, q, warpgroup, thread);
      fence_for_engines();
      synchronize(barrier, barrier_threads);
      if (issues) {
        const int r = origin.r + q * 8;
        if constexpr (Tile::wide)
          hopper::store(y, chunk, origin.j, r, origin.i, first_n);
        else
          hopper::store(y, chunk, r * Tile::j, origin.i, first_n);
        commit_stores();
      }
    }
  }

  __device__ static void fill(char* chunk, const float (&sums)[P][Tile::r / 2], int q, int warpgroup, int thread) {
    const int lane = thread % 32, t = lane % 4;
    const int first_plane = Tile::split ? warpgroup * P : 0;
    const int row = thread / 32 * 16 + PlanesFragments<Tile>::row_of(lane / 4);
    const bool swaps = P % 2 == 0 && (row >> swapping_bit & 1) != 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      char* const to = chunk + (row + half * 8) * row_bytes + (2 * t * Tile::j + first_plane) * 2;
      const auto bits = [&](int column, int plane) -> uint32_t {
        return to_bits<T>(sums[plane][q * 4 + half * 2 + column]);
      };
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        if constexpr (P % 2 == 0) {
          uint32_t words[P / 2];
#pragma unroll
          for (int w = 0; w < P / 2; ++w) {
            const uint32_t own = bits(column, 2 * w) | bits(column, 2 * w + 1) << 16;
            const uint32_t other = bits(column ^ 1, 2 * w) | bits(column ^ 1, 2 * w + 1) << 16;
            words[w] = swaps ? other : own;
          }
          put(to + (swaps ? column ^ 1 : column) * 2 * Tile::j, words);
        } else {
#pragma unroll
          for (int plane = 0; plane < P; ++plane)
            *reinterpret_cast<uint16_t*>(to + 2 * (column * Tile::j + plane)) =
                static_cast<uint16_t>(bits(column, plane));
        }
      }
    }
  }

  __device__ static void put(char* to, const uint32_t (&words)[P / 2]) {
    constexpr int size = P % 8 == 0 ? 4 : P % 4 == 0 ? 2 : 1;
#pragma unroll
    for (int w = 0; w < P / 2; w += size) {
      if constexpr (size == 4)
        *reinterpret_cast<uint4*>(to + 4 * w) = make_uint4(words[w], words[w + 1], words[w + 2], words[w + 3]);
      else if constexpr (size == 2)
        *reinterpret_cast<uint2*>(to + 4 * w) = make_uint2(words[w], words[w + 1]);
      else
        *reinterpret_cast<uint32_t*>(to + 4 * w) = words[w];
    }
  }
};

}  // namespace ksmm::hopper
