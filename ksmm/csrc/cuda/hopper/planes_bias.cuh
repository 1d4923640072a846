// The bias of a tile of the planes kernel: a warp brings it to shared memory while the tile before is multiplied, and
// the sums start from there.
#pragma once

#include "../matrix_unit.cuh"
#include "../number.cuh"
#include "planes_producer.cuh"

namespace ksmm::hopper {

// Eight numbers of a tile's bias, [r][j], from the one at `place` on: where they are, and how many of them there are.
// Where there are none, the tile's first: an address that is read by vectors is aligned, whether or not it is read.
struct BiasPiece {
  const uint16_t* from;
  int count;
};

template <class Tile>
__host__ __device__ inline BiasPiece piece_of_bias(const PlanesTask& task, const PlanesOrigin& origin, int place) {
  constexpr int run = Tile::wide ? Tile::j : Tile::r * Tile::j;  // contiguous
  const int row = place / run, at = place % run;
  const int inside = !Tile::wide ? (task.b - origin.r) * Tile::j : origin.r + row < task.b ? task.d - origin.j : 0;
  const int count = inside - at < 0 ? 0 : inside - at < 8 ? inside - at : 8;
  const int64_t first = (static_cast<int64_t>(origin.i) * task.b + origin.r) * task.d + origin.j;
  const uint16_t* const of_tile = task.bias + (origin.r < task.b ? first : 0);
  return {of_tile + (count == 0 ? 0 : static_cast<int64_t>(row) * task.d + at), count};
}

// Whether all pieces of a tile begin at multiples of 16 bytes.
template <class Tile>
__host__ __device__ inline bool bias_is_aligned(const PlanesTask& task, const PlanesOrigin& origin) {
  return reinterpret_cast<uintptr_t>(piece_of_bias<Tile>(task, origin, 0).from) % 16 == 0 &&
         (!Tile::wide || task.d % 8 == 0);
}

// All lanes of a warp bring it, for the first tile at once, then as soon as the tile before has begun.
template <class Tile>
__device__ void produce_bias(const PlanesTask& task, PlanesShared<Tile>& shared, int lane) {
  if (task.bias == nullptr) return;
  const PlanesCluster<Tile> cluster;
  uint32_t phase = 0;
  for (int tile = blockIdx.x / Tile::cluster; tile < task.tiles; tile += gridDim.x / Tile::cluster, phase ^= 1) {
    const PlanesOrigin origin = planes_origin<Tile>(task, tile, cluster.rank);
    const bool aligned = bias_is_aligned<Tile>(task, origin);
    shared.empty_bias.wait(phase ^ 1);
    for (int place = 8 * lane; place < Tile::r * Tile::j; place += 8 * 32) {
      const auto [from, count] = piece_of_bias<Tile>(task, origin, place);
      uint16_t* const to = shared.bias + place;
      if (aligned)
        copy_bytes<16>(to, from, 2 * count);
      else
        for (int at = 0; at < 8; ++at) to[at] = at < count ? __ldg(from + at) : 0;
    }
    if (aligned)
      shared.full_bias.arrive_when_copied();
    else
      shared.full_bias.arrive();
  }
}

// What a thread's sums start from, of a tile's bias.
template <class T, class Tile>
__host__ __device__ inline void take_bias(float (&sums)[Tile::planes][Tile::r / 2], const uint16_t* bias, int warpgroup,
                                          int lane) {
  constexpr int P = Tile::planes, columns = Tile::run / P;  // that are contiguous
  const int first_plane = Tile::split ? warpgroup * P : 0;
#pragma unroll
  for (int s = 0; s < Tile::r / 2; s += 4)  // sums of row g and two columns, then of row g + 8
#pragma unroll
    for (int pair = 0; pair < 2; pair += columns)
#pragma unroll
      for (int at = 0; at < Tile::run; at += Tile::vector) {
        Vector<T, Tile::vector> values;
        memcpy(&values, bias + (2 * s + lane % 4 * 2 + pair) * Tile::j + first_plane + at, sizeof values);
#pragma unroll
        for (int e = at; e < at + Tile::vector; ++e)
          sums[e % P][s + pair + e / P] = sums[e % P][s + pair + e / P + 2] = to_float<T>(values.bits[e - at]);
      }
}

// Sums start from the bias, where there is one; else the first product of each makes them.
template <class T, class Tile>
__device__ inline void start_planes(float (&sums)[Tile::planes][Tile::r / 2], const PlanesTask& task,
                                    PlanesShared<Tile>& shared, uint32_t phase, int warpgroup, int lane) {
  if (task.bias == nullptr) return;
  shared.full_bias.wait(phase);
  take_bias<T, Tile>(sums, shared.bias, warpgroup, lane);
#pragma unroll
  for (int plane = 0; plane < Tile::planes; ++plane)
#pragma unroll
    for (int s = 0; s < Tile::r / 2; ++s) fence_register(sums[plane][s]);
}

// Says that a thread's sums have the bias, which is sure once products were added to them: a thread may arrive at a
// barrier while its reads are on their way.
template <class Tile>
__device__ inline void give_bias_back(const PlanesTask& task, PlanesShared<Tile>& shared) {
  if (task.bias != nullptr) shared.empty_bias.arrive();  // racecheck does not follow one lane that does it for a warp
}

}  // namespace ksmm::hopper
