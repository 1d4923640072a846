// The way of the sums to rows of Y that begin anywhere: through shared memory by the copy engine, from one multiple of
// 32 (or 16) bytes to another. What a row has before the first of them and behind the last, the threads write that have
// it, and so they do with rows that are shorter than a tile.
#pragma once

#include "gemm_epilogue.cuh"
#include "shifted_tile.cuh"

namespace ksmm::hopper {

// Which n of a row of Y the copy engine writes, for a tile: `step` of them from begin(row) on, which depends on r
// alone. `turn` is from the shift of r to that of r + 1.
struct ShiftedSpans {
  int shift, turn, unit;
  int ends_at;  // the n behind the row's last, in its last tile, and else 0

  __host__ __device__ ShiftedSpans(const ShiftedTask& task, const ShiftedPlace& place)
      : shift(place.shift(task, task.rows_of_y, place.r)),
        turn(static_cast<int>(task.groups_j * task.rows_of_y.stride & (task.rows_of_y.unit - 1))),
        unit(task.rows_of_y.unit),
        ends_at(place.ends ? static_cast<int>(task.batch - place.n) : 0) {}
  __host__ __device__ int begin(int row, int step) const {
    const int behind = shift + row * turn;
    return ends_at == 0 ? -behind & (unit - 1) : ((behind + ends_at) & ~7) - behind - step;
  }
};

// Whether the copy engine writes a tile.
template <class Tile>
__host__ __device__ inline bool is_sent(const ShiftedTask& task) {
  return task.batch >= Tile::rows;
}

template <class Tile>
struct ShiftedParts {
  Barrier full[Tile::parts], empty[Tile::parts];

  __device__ void init(int thread) {
    if (thread < Tile::parts) full[thread].init(Tile::consumers / 32), empty[thread].init(Tile::helpers);
  }
};

template <class T, class Tile>
struct ShiftedOutlet {
  unsigned char* places;
  ShiftedParts<Tile>& parts;
  Ring<Tile::parts> ring;

  // Of the rows 2 t and 2 t + 1, and of those eight further, of 16: where n of the row is in a part. The lanes of a
  // warp that write together do so to different banks where all rows are of one class: half of them take the odd row
  // first.
  struct Places {
    uint32_t at[2][2];
    int valid;  // bits: of n, of n + 1
    bool swapped;
  };

  // All threads that multiply call it.
  __device__ void put(const float (&sums)[Tile::columns / 2], const ShiftedTask& task, const ShiftedPlace& place) {
    const ShiftedSpans spans(task, place);
    const ShiftedRows& y = task.rows_of_y;
    const Places where = places_of(spans, y.class_bits, threadIdx.x);
    const bool sent = is_sent<Tile>(task), edge = __any_sync(~0u, where.valid != 255);
    const uint32_t sixteen_rows = (16 >> y.class_bits) * Tile::part_pitch;
    const int rest = !sent || place.ends || place.n == 0 ? rest_of(spans, task, place, threadIdx.x) : 0;
    const bool any_rest = __any_sync(~0u, rest != 0);
    const int64_t step = task.groups_j * task.batch;  // from r to r + 1
    uint16_t* first = place.row(task, y, place.r + threadIdx.x % 4 * 2) + place.n + shifted_n(threadIdx.x);
#pragma unroll
    for (int column = 0; column < Tile::columns; column += Tile::part) {
      if (place.r + column >= task.b) break;
      if (sent) {
        parts.empty[ring.slot].wait(ring.phase ^ 1);
        const uint32_t part = shared_address(places + ring.slot * Tile::part_bytes);
        if (y.class_bits == 0)
          put_part<true, true>(part, &sums[column / 2], where, spans, sixteen_rows);
        else if (edge)
          put_part<false, true>(part, &sums[column / 2], where, spans, sixteen_rows);
        else
          put_part<false, false>(part, &sums[column / 2], where, spans, sixteen_rows);
        fence_for_engines();
        __syncwarp();
        if (threadIdx.x % 32 == 0) parts.full[ring.slot].arrive();
        ring.advance();
      }
      if (any_rest) put_rest(&sums[column / 2], rest, first + column * step, step, task.b - place.r - column);
    }
  }

  __host__ __device__ static Places places_of(const ShiftedSpans& spans, int class_bits, unsigned thread) {
    Places where;
    where.valid = 0, where.swapped = class_bits == 0 && thread % 4 >= 2;
#pragma unroll
    for (int odd = 0; odd < 2; ++odd)
#pragma unroll
      for (int eight = 0; eight < 2; ++eight) {
        const int row = 8 * eight + thread % 4 * 2 + (odd ^ static_cast<int>(where.swapped));
        const int at = shifted_n(thread) - spans.begin(row, Tile::step), bit = 4 * odd + 2 * eight;
        where.valid |= (at >= 0 && at < Tile::step) << bit | (at + 1 >= 0 && at + 1 < Tile::step) << (bit + 1);
        where.at[odd][eight] = (row & ((1 << class_bits) - 1)) * Tile::part_class_bytes(class_bits) +
                               (row >> class_bits) * Tile::part_pitch + 2 * at;
      }
    return where;
  }

  // The sums of 64 r: a thread has n and n + 1 of sixteen of them. What the engine does not write is left out, which a
  // warp at the EDGE of a tile has.
  template <bool SWAPS, bool EDGE>
  __device__ static void put_part(uint32_t part, const float* sums, const Places& where, const ShiftedSpans& spans,
                                  uint32_t sixteen_rows) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd)
      if (((spans.shift + odd * spans.turn) & 1) == 0)  // the same for a block, also where swapped
        put_rows<SWAPS, EDGE, true>(part, sums, where, odd, sixteen_rows);
      else
        put_rows<SWAPS, EDGE, false>(part, sums, where, odd, sixteen_rows);
  }

  // Of every second row; ALIGNED: n and n + 1 are in one word.
  template <bool SWAPS, bool EDGE, bool ALIGNED>
  __device__ static void put_rows(uint32_t part, const float* sums, const Places& where, int odd,
                                  uint32_t sixteen_rows) {
#pragma unroll
    for (int eight = 0; eight < 2; ++eight) {
      uint32_t to = part + where.at[odd][eight];
      const int valid = where.valid >> (4 * odd + 2 * eight);
#pragma unroll
      for (int sixteen = 0; sixteen < Tile::part / 16; ++sixteen, to += sixteen_rows) {
        const float* of_row = &sums[8 * sixteen + 4 * eight];
        const bool second = (odd == 1) != (SWAPS && where.swapped);
        const uint32_t numbers = pack_pair<T>(second ? of_row[1] : of_row[0], second ? of_row[3] : of_row[2]);
        if constexpr (ALIGNED)
          put_pair<EDGE>(to, numbers, valid & 1);
        else
          put_numbers<EDGE>(to, numbers, valid & 1, valid & 2);
      }
    }
  }

  // Without branches, which would cost a warp more than all else here.
  template <bool EDGE>
  __device__ static void put_pair(uint32_t to, uint32_t numbers, int valid) {
    if constexpr (EDGE)
      asm volatile("{.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n@p st.shared.b32 [%0], %1;}" ::"r"(to), "r"(numbers),
                   "r"(valid)
                   : "memory");
    else
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(numbers) : "memory");
  }
  template <bool EDGE>
  __device__ static void put_numbers(uint32_t to, uint32_t numbers, int first_valid, int second_valid) {
    const auto low = static_cast<uint16_t>(numbers), high = static_cast<uint16_t>(numbers >> 16);
    if constexpr (EDGE)
      asm volatile(
          "{.reg .pred p, q;\nsetp.ne.b32 p, %3, 0;\nsetp.ne.b32 q, %4, 0;\n@p st.shared.b16 [%0], %1;\n"
          "@q st.shared.b16 [%0 + 2], %2;}" ::"r"(to),
          "h"(low), "h"(high), "r"(first_valid), "r"(second_valid)
          : "memory");
    else
      asm volatile("st.shared.b16 [%0], %1;\nst.shared.b16 [%0 + 2], %2;" ::"r"(to), "h"(low), "h"(high) : "memory");
  }

  // Which of its numbers a thread writes itself, as bits: of the rows 2 t and 2 t + 1, of those eight further, n and
  // n + 1.
  __host__ __device__ static int rest_of(const ShiftedSpans& spans, const ShiftedTask& task, const ShiftedPlace& place,
                                         unsigned thread) {
    int rest = 0;
#pragma unroll
    for (int bit = 0; bit < 8; ++bit) {
      const int begin = spans.begin(bit / 2 % 2 * 8 + thread % 4 * 2 + bit / 4, Tile::step);
      const int n = shifted_n(thread) + bit % 2;
      const bool own = !is_sent<Tile>(task) || (n < begin ? place.n == 0 : n >= begin + Tile::step && place.ends);
      rest |= (own && place.n + n < task.batch) << bit;
    }
    return rest;
  }

  // Of 64 r, `rows` of which are rows of Y.
  __device__ static void put_rest(const float* sums, int rest, uint16_t* first, int64_t step, int rows) {
    rows -= threadIdx.x % 4 * 2;
#pragma unroll
    for (int at = 0; at < Tile::part / 2; at += 4, first += 8 * step)
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const int own = at * 2 + odd < rows ? rest >> (odd * 4 + at / 4 % 2 * 2) : 0;
        const uint32_t numbers = pack_pair<T>(sums[at + odd], sums[at + 2 + odd]);
        asm volatile(
            "{.reg .b16 l, h;\n.reg .pred p, q;\nmov.b32 {l, h}, %1;\nsetp.ne.b32 p, %2, 0;\nsetp.ne.b32 q, %3, 0;\n"
            "@p st.global.b16 [%0], l;\n@q st.global.b16 [%0 + 2], h;}" ::"l"(first + odd * step),
            "r"(numbers), "r"(own & 1), "r"(own & 2)
            : "memory");
      }
  }
};

// A thread of each warp that sends: has the parts of all tiles of the block written, every second class of rows.
template <class Tile>
__device__ void send_shifted(const ShiftedTask& task, ShiftedParts<Tile>& parts, const unsigned char* places,
                             int helper) {
  if (!is_sent<Tile>(task)) return;
  const ShiftedRows& y = task.rows_of_y;
  Ring<Tile::parts> ring, read;
  bool first = true;
  for (int tile = blockIdx.x; tile < task.tiles; tile += gridDim.x) {
    const ShiftedPlace place(task, tile, Tile::columns, Tile::step);
    const ShiftedSpans spans(task, place);
    for (int r = place.r; r < min(place.r + Tile::columns, task.b); r += Tile::part, ring.advance()) {
      parts.full[ring.slot].wait(ring.phase);
      const unsigned char* part = places + ring.slot * Tile::part_bytes;
      for (int q = helper; q < 1 << y.class_bits; q += Tile::helpers) {
        const int start = q * task.groups_j + place.j;
        store(task.y, part + q * Tile::part_class_bytes(y.class_bits),
              y.column(start) + place.n + spans.begin(q, Tile::step), r >> y.class_bits, start >> y.period_bits,
              place.i);
      }
      commit_stores();
      if (!first) {
        wait_for_store_reads<1>();
        parts.empty[read.slot].arrive();
        read.advance();
      }
      first = false;
    }
  }
  wait_for_store_reads<0>();
}

}  // namespace ksmm::hopper
