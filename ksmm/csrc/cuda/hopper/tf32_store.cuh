// Finished sums to Y in batch_first, through shared memory: from there the copy engine writes whole sectors, however
// far they are from each other, and nothing outside of Y. Written by threads, the sectors of eight planes took seven
// cycles each.
#pragma once

#include "copy.cuh"
#include "tf32_epilogue.cuh"

namespace ksmm::hopper {

// Hands a place that a warp has filled to the copy engine. All lanes of the warp call it.
template <class Tile>
__device__ inline void send_place(const Tf32Task& task, const Tf32Place& at, const char* place, int r, int64_t n,
                                  int lane) {
  fence_for_engines();
  __syncwarp();
  if (lane != 0) return;
  store(task.y, place, r * Tile::planes, at.i, static_cast<int>(n));
  commit_stores();
}

// The place of a warp's box, once the copy engine has read what it held.
template <class Tile>
__device__ inline char* place_of_box(char* places, int box, int lane) {
  if (box >= Tile::places && lane == 0) wait_for_store_reads<Tile::places - 1>();
  __syncwarp();
  return places + box % Tile::places * Tile::places_of_all;
}

// 8 planes, of which the two warpgroups have four each: both fill boxes of 8 rows n by 8 columns, four for each of
// their warps at a time, and hand two of them to the copy engine.
template <class Tile>
__device__ inline void store_sectors(const Tf32Task& task, const float (&sums)[Tile::units][Tile::unit_sums],
                                     const Tf32Place& at, char* places, int warpgroup, int warp, int lane) {
  constexpr int rounds = Tile::rows / 16, groups = Tile::places / 2;  // of four places for each of four warps
  const int g = lane / 4, t = lane % 4, odd = g % 2, chunk = ((t >> 1) ^ warpgroup) << 4;
#pragma unroll
  for (int round = 0; round < rounds; ++round) {
    if (at.r0 + 16 * round >= task.b) break;
    char* const place = places + (round % groups * 4 + warp) * (4 * Tile::place_bytes);
    if (round >= groups) {
      if (lane == 0) wait_for_store_reads<groups - 1>();
      synchronize(consumer_barrier, consumer_threads);
    }
#pragma unroll
    for (int box = 0; box < 4; ++box) {
      const int q = 2 * round + box / 2, half = box % 2, r = at.r0 + 8 * q;
      const int64_t n = at.n0 + warp * 16 + half * 8;
#pragma unroll
      for (int e = 0; e < 2; ++e) {  // even and odd g begin with different columns, which lie in different banks
        const int column = 2 * t + (e ^ odd);
        float values[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)  // registers have no index
          values[j] = odd ? sums[j][q * 4 + half * 2 + 1 - e] : sums[j][q * 4 + half * 2 + e];
        char* const to = place + box * Tile::place_bytes + g * 256 + column * 32 + chunk;
        *reinterpret_cast<float4*>(to) = make_float4(values[0], values[1], values[2], values[3]);
        if (any_not_finite(values) && r + column < task.b && n + g < task.batch)
          for (int j = 0; j < 4 && at.j0 + j < task.d; ++j)
            reinterpret_cast<float*>(to)[j] = sum_again<Tile>(task, at.i, r + column, at.j0 + j, n + g);
      }
    }
    fence_for_engines();
    synchronize(consumer_barrier, consumer_threads);
    if (lane == 0) {
      for (int half = 0; half < 2; ++half)
        store(task.y, place + (2 * warpgroup + half) * Tile::place_bytes, at.j0 - warpgroup * Tile::warpgroup_planes,
              at.r0 + 8 * (2 * round + warpgroup), at.i, static_cast<int>(at.n0) + warp * 16 + half * 8);
      commit_stores();
    }
  }
}

// Sums of two columns from r on, which are neighbours in Y, to a row in shared memory.
template <class Tile, int COUNT>
__device__ inline void put_run(const Tf32Task& task, const Tf32Place& at, const float (&values)[COUNT], char* place,
                               int offset, int r, int64_t n) {
  constexpr int vector = COUNT % 4 == 0 ? 4 : 2;
  constexpr bool power_of_two = (COUNT & (COUNT - 1)) == 0;  // then an offset has the bits of v clear
  const int first = swizzled<Tile::y_row_bytes>(offset);
  const auto address = [&](int v) { return place + (power_of_two ? first ^ v * 4 : first + v * 4); };
#pragma unroll
  for (int v = 0; v < COUNT; v += vector) {
    if constexpr (vector == 4)
      *reinterpret_cast<float4*>(address(v)) = make_float4(values[v], values[v + 1], values[v + 2], values[v + 3]);
    else
      *reinterpret_cast<float2*>(address(v)) = make_float2(values[v], values[v + 1]);
  }
  if (any_not_finite(values) && n < task.batch)
    for (int v = 0; v < COUNT && r + v / Tile::planes < task.b; ++v)
      *reinterpret_cast<float*>(address(v)) = sum_again<Tile>(task, at.i, r + v / Tile::planes, v % Tile::planes, n);
}

// All j of a factor: 16 rows n by as many columns as a row of the box has.
template <class Tile>
__device__ inline void store_runs(const Tf32Task& task, const float (&sums)[Tile::units][Tile::unit_sums],
                                  const Tf32Place& at, char* places, int warp, int lane) {
  constexpr int planes = Tile::planes, groups = Tile::y_columns / 8;
  const int row = place_of_row<Tile>(lane / 4), t = lane % 4;
#pragma unroll
  for (int box = 0; box < Tile::blocks * Tile::rows / Tile::y_columns; ++box) {
    const int block = box % Tile::blocks, first_q = box / Tile::blocks * groups, r = at.r0 + 8 * first_q;
    const int64_t n = at.n0 + block * 64 + warp * 16;
    if (r >= task.b) break;
    char* const place = place_of_box<Tile>(places, box, lane);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int q = 0; q < groups; ++q) {
        const int column = 8 * q + 2 * t;
        float values[2 * planes];
#pragma unroll
        for (int v = 0; v < 2 * planes; ++v)
          values[v] = sums[block * planes + v % planes][(first_q + q) * 4 + half * 2 + v / planes];
        put_run<Tile>(task, at, values, place, (row + 8 * half) * Tile::y_row_bytes + column * planes * 4, r + column,
                      n + row + 8 * half);
      }
    send_place<Tile>(task, at, place, r, n, lane);
  }
}

// The same number by number, where the copy engine does not take Y: rows of it are no multiple of 16 bytes.
template <class Tile>
__device__ inline void store_numbers(const Tf32Task& task, const float (&sums)[Tile::units][Tile::unit_sums],
                                     const Tf32Place& at, int warp, int lane) {
  constexpr int planes = Tile::planes;
  const int64_t features = static_cast<int64_t>(task.a) * task.b * planes;
#pragma unroll
  for (int part = 0; part < 2 * Tile::blocks; ++part) {  // rows g and g + 8 of each block
    const int64_t n = at.n0 + part / 2 * 64 + part % 2 * 8 + warp * 16 + place_of_row<Tile>(lane / 4);
    if (n >= task.batch) continue;
#pragma unroll
    for (int q = 0; q < Tile::unit_sums / 2; ++q) {
      const int r = at.r0 + 2 * (lane % 4) + q / 2 * 8 + q % 2;
      if (r >= task.b) continue;
      float* const to = task.y_data + n * features + (static_cast<int64_t>(at.i) * task.b + r) * planes;
#pragma unroll
      for (int j = 0; j < planes; ++j) {
        const float value[1] = {sums[part / 2 * planes + j][q / 2 * 4 + part % 2 * 2 + q % 2]};
        to[j] = any_not_finite(value) ? sum_again<Tile>(task, at.i, r, j, n) : value[0];
      }
    }
  }
}

// All lanes call it. `places`: in shared memory, the warp's first or (SPLIT) the first of all; the next ones are
// places_of_all apart. The copy engine may still read from them when this returns.
template <class Tile>
__device__ inline void store_batch_first(const Tf32Task& task, const float (&sums)[Tile::units][Tile::unit_sums],
                                         const Tf32Place& at, char* places, int warpgroup, int warp, int lane) {
  if constexpr (Tile::split)
    store_sectors<Tile>(task, sums, at, places, warpgroup, warp, lane);
  else if (task.whole_vectors)
    store_runs<Tile>(task, sums, at, places, warp, lane);
  else
    store_numbers<Tile>(task, sums, at, warp, lane);
}

}  // namespace ksmm::hopper
