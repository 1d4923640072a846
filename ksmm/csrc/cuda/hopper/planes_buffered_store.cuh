// Brings the sums of a tile of the planes kernel to Y through shared memory that holds them all: threads wait for
// nothing but each other, and the copy engine writes while the next tile is multiplied.
#pragma once

#include "planes_store.cuh"

namespace ksmm::hopper {

constexpr int helper_threads = 96;

__device__ inline void arrive_to_synchronize(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// What helpers do: they write what the warpgroups have put down.
template <class Tile>
__device__ void write_buffered(const PlanesTask& task, const char* chunks, int thread) {
  constexpr int parts = Tile::split ? 1 : 2, threads = (Tile::split ? 256 : 128) + helper_threads;
  constexpr int vectors = Tile::r * Tile::j / 8;  // of a row n
  const PlanesCluster<Tile> cluster;
  const int64_t features = static_cast<int64_t>(task.a) * task.b * task.d;
#pragma unroll
  for (int part = 0; part < parts; ++part) arrive_to_synchronize(1 + part, threads);
  for (int64_t tile = blockIdx.x / Tile::cluster; tile < task.tiles; tile += gridDim.x / Tile::cluster) {
    const PlanesOrigin origin = planes_origin<Tile>(task, tile, cluster.rank);
    for (int part = 0; part < parts; ++part) {
      const char* const own = chunks + part * Tile::chunks_of_rows * Tile::chunk_bytes;
      const int rows = static_cast<int>(min(task.batch - origin.n - part * 64, int64_t{64}));
      const int width = task.b * Tile::j - origin.r * Tile::j;
      uint16_t* const y =
          task.y + (origin.n + part * 64) * features + (static_cast<int64_t>(origin.i) * task.b + origin.r) * Tile::j;
      synchronize(3 + part, threads);
#pragma unroll 4
      for (int at = thread; at < 64 * vectors; at += helper_threads) {
        const int row = at / vectors, vector = at % vectors;
        const uint4 words = *reinterpret_cast<const uint4*>(own + vector / 8 * Tile::chunk_bytes + row * 128 +
                                                            (vector % 8 ^ row % 8) * 16);
        if (row < rows && vector * 8 < width) *reinterpret_cast<uint4*>(y + row * features + vector * 8) = words;
      }
      arrive_to_synchronize(1 + part, threads);
    }
  }
}

template <class T, class Tile>
struct PlanesBufferedStore {
  using Direct = PlanesStore<T, Tile>;
  static constexpr int P = Tile::planes, run = Direct::run, vector = Direct::vector;
  static constexpr int columns = Direct::joined ? 1 : 2;  // runs of a thread for each pair of r
  static constexpr int barrier_threads = Tile::split ? 256 : 128;

  __device__ static void store(const PlanesTask& task, const CUtensorMap& y, char* chunks, const PlanesOrigin& origin,
                               const float (&sums)[P][Tile::r / 2], int warpgroup, int thread) {
    const bool issues = thread == 0 && (!Tile::split || warpgroup == 0);
    const int barrier = 1 + (Tile::split ? 0 : warpgroup);
    char* const own = chunks + (Tile::split ? 0 : warpgroup * Tile::chunks_of_rows * Tile::chunk_bytes);
    const int first_n = origin.n + (Tile::split ? 0 : warpgroup * 64);
    if constexpr (Tile::helped) {
      synchronize(barrier, barrier_threads + helper_threads);  // the helpers have taken what was there
      fill(own, sums, warpgroup, thread);
      arrive_to_synchronize(barrier + 2, barrier_threads + helper_threads);
      return;
    }
    if (issues) wait_for_store_reads<0>();
    synchronize(barrier, barrier_threads);
    fill(own, sums, warpgroup, thread);
    fence_for_engines();
    synchronize(barrier, barrier_threads);
    if (!issues) return;
    constexpr int width = Tile::chunk_row_bytes / 2;
    for (int chunk = 0; chunk < Tile::chunks_of_rows; ++chunk) {
      const char* from = own + chunk * Tile::chunk_bytes;
      if constexpr (Tile::wide) {
        if (origin.r + 8 * chunk < task.b) hopper::store(y, from, origin.j, origin.r + 8 * chunk, origin.i, first_n);
      } else {
        const int place = origin.r * Tile::j + chunk * width;
        if (place < task.b * Tile::j) hopper::store(y, from, place, origin.i, first_n);
      }
    }
    commit_stores();
  }

  // Where element `place` of a row n of the tile, [r][j], lies.
  __device__ static int offset_of(int row, int place) {
    const int byte = 2 * place;
    if constexpr (Tile::wide) return byte / 256 * Tile::chunk_bytes + row * 256 + byte % 256;
    return byte / 128 * Tile::chunk_bytes + row * 128 + (byte % 128 ^ row % 8 * 16);
  }

  __device__ static void fill(char* own, const float (&sums)[P][Tile::r / 2], int warpgroup, int thread) {
    const int lane = thread % 32, t = lane % 4;
    const int first_plane = Tile::split ? warpgroup * P : 0;
    const int row = thread / 32 * 16 + PlanesFragments<Tile>::row_of(lane / 4);
    // with 16 planes, half of the lanes write the second column first: they would meet the others in the same banks
    const bool swaps = Tile::j == 16 && t >= 2;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int q = 0; q < Tile::r / 8; ++q) {
        uint32_t words[columns][run / 2];
#pragma unroll
        for (int column = 0; column < columns; ++column)
#pragma unroll
          for (int e = 0; e < run; e += 2) {
            const auto bits = [&](int at) -> uint32_t {
              return to_bits<T>(sums[at % P][q * 4 + half * 2 + column + at / P]);
            };
            words[column][e / 2] = bits(e) | bits(e + 1) << 16;
          }
#pragma unroll
        for (int turn = 0; turn < columns; ++turn) {
          const int column = swaps ? columns - 1 - turn : turn;
          const int place = (q * 8 + 2 * t + column) * Tile::j + first_plane;
#pragma unroll
          for (int at = 0; at < run; at += vector) {
            uint32_t part[vector / 2];
#pragma unroll
            for (int w = 0; w < vector / 2; ++w)
              part[w] = swaps ? words[columns - 1 - turn][at / 2 + w] : words[turn][at / 2 + w];
            Direct::put(reinterpret_cast<uint16_t*>(own + offset_of(row + half * 8, place + at)), part);
          }
        }
      }
  }
};

}  // namespace ksmm::hopper
