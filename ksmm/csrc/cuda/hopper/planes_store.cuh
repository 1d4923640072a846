// Brings the sums of a tile of the planes kernel to Y.
#pragma once

#include "../number.cuh"
#include "copy.cuh"
#include "divisor.cuh"
#include "planes_fragments.cuh"
#include "products.cuh"

namespace ksmm::hopper {

struct PlanesTask {
  uint16_t* y;
  const uint16_t* bias;  // or null
  const char* weight;    // W by stages (planes_weight.h), or null: it comes by its tensor
  int64_t batch;
  int a, b, c, d;
  int stages_r;  // tiles of r in W by stages
  bool beside;   // runs beside the kernel before it (overlap.cuh)
  // of a cluster
  int tiles_r, tiles_j, tiles_n, tiles;
  Divisor by_tiles_r, by_tiles_j, by_tiles_n;
  Keep x_keep = Keep::normal;  // in the L2 cache

  void set_tiles(int64_t along_r, int64_t along_j, int64_t along_n, int64_t all) {
    tiles_r = static_cast<int>(along_r), tiles_j = static_cast<int>(along_j), tiles_n = static_cast<int>(along_n);
    tiles = static_cast<int>(all);
    by_tiles_r = Divisor(tiles_r), by_tiles_j = Divisor(tiles_j), by_tiles_n = Divisor(tiles_n);
  }
};

struct PlanesOrigin {
  int i, n, r, j;
};

// Where a block of a cluster has its tile. r varies first, so that blocks side by side read the same X; then j, whose
// neighbours share lines of memory. Nothing is multiplied meanwhile, and divisions of 64 bits took up to a twentieth of
// the time of tiles with few steps.
template <class Tile>
__host__ __device__ PlanesOrigin planes_origin(const PlanesTask& task, int tile, int rank) {
  const int after_r = task.by_tiles_r.divide(tile), after_j = task.by_tiles_j.divide(after_r);
  const int i = task.by_tiles_n.divide(after_j);
  const int r = tile - after_r * task.tiles_r, j = after_r - after_j * task.tiles_j, n = after_j - i * task.tiles_n;
  return {i, (n * Tile::along_n + rank % Tile::along_n) * Tile::n, (r * Tile::along_r + rank / Tile::along_n) * Tile::r,
          j * Tile::j};
}

// Writes one thread's sums: for each of its rows n and columns r, all its planes, which are contiguous in Y. Where the
// planes are all of d, so are those of two neighbouring r.
template <class T, class Tile>
struct PlanesStore {
  static constexpr int P = Tile::planes;
  static constexpr int run = Tile::run, vector = Tile::vector;

  __device__ static void put(uint16_t* to, const uint32_t* words) {
    if constexpr (vector == 8)
      *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
    else if constexpr (vector == 4)
      *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
    else
      *reinterpret_cast<uint32_t*>(to) = words[0];
  }

  // Elements of Y at `place` (within a row n) and following, from `value(element)`; `count` of them are inside.
  template <class Value>
  __device__ static void store_run(const PlanesTask& task, uint16_t* row, int64_t place, int count, Value value) {
#pragma unroll
    for (int at = 0; at < run; at += vector) {
      uint32_t words[vector / 2];
#pragma unroll
      for (int e = 0; e < vector; e += 2)
        words[e / 2] = to_bits<T>(value(at + e)) | static_cast<uint32_t>(to_bits<T>(value(at + e + 1))) << 16;
      if (at + vector <= count) {
        put(row + place + at, words);
      } else {
#pragma unroll
        for (int e = 0; e < vector; ++e)
          if (at + e < count) row[place + at + e] = static_cast<uint16_t>(words[e / 2] >> e % 2 * 16);
      }
    }
  }

  // Groups of 8 columns r from `first` on.
  __device__ static void store_groups(const PlanesTask& task, const PlanesOrigin& origin,
                                      const float (&sums)[P][Tile::r / 2], int warpgroup, int thread, int first) {
    const int lane = thread % 32, t = lane % 4;
    const int first_plane = Tile::split ? warpgroup * P : 0;
    const int row = thread / 32 * 16 + PlanesFragments<Tile>::row_of(lane / 4) + (Tile::split ? 0 : warpgroup * 64);
    const int64_t features = static_cast<int64_t>(task.a) * task.b * task.d;
    const int left_j = min(task.d - origin.j - first_plane, P);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t n = static_cast<int64_t>(origin.n) + row + half * 8;
      if (n >= task.batch || left_j <= 0) continue;
      uint16_t* to = task.y + n * features;
#pragma unroll
      for (int q = first; q < Tile::r / 8; ++q) {
        const int r = origin.r + q * 8 + 2 * t;
        const int64_t place = (static_cast<int64_t>(origin.i) * task.b + r) * task.d + origin.j + first_plane;
        const int left_r = task.b - r;
        if constexpr (!Tile::split) {
          if (left_r > 0)
            store_run(task, to, place, min(left_r, 2) * P,
                      [&](int e) { return sums[e % P][q * 4 + half * 2 + e / P]; });
        } else {
#pragma unroll
          for (int column = 0; column < 2; ++column)
            if (left_r > column)
              store_run(task, to, place + static_cast<int64_t>(column) * task.d, left_j,
                        [&](int e) { return sums[e][q * 4 + half * 2 + column]; });
        }
      }
    }
  }
};

}  // namespace ksmm::hopper
