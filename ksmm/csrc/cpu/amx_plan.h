// How the product is cut for tile products, and the weights as tiles.
#pragma once

#include <type_traits>

#include "amx_planes.h"
#include "work.h"

namespace ksmm {
namespace KSMM_VARIANT {

// A task is an i, a block of j and a block of n; it takes all r and all k.
struct AmxPlan {
  Problem problem;
  int64_t row_tiles, depth_tiles;     // of 16 r and of 32 k
  int64_t batch_block, batch_blocks;  // n at a time, a multiple of 32
  int64_t j_block, j_blocks;
  int planes;
  bool overlaps;  // whether the block before is written and the next one read while one is multiplied

  AmxPlan(const Problem& p, int planes_of_one)
      : problem(p), row_tiles(divide_up(p.b, 16)), depth_tiles(divide_up(p.c, tile_k)), planes(planes_of_one) {
    j_block = is_first() ? smaller(p.d, 16) : 1;
    j_blocks = divide_up(p.d, j_block);
    // In batch_first what comes between is more than products of tiles hide; and where weights are read from beyond the
    // second-level cache each time, larger blocks gain more.
    overlaps = !is_first() && weight_bytes() <= most_bytes / 2;
    const int64_t copies = overlaps ? 2 : 1;
    for (batch_block = 32; batch_block < 128 && batch_block < p.batch; batch_block *= 2) {
      if (2 * copies * bytes(batch_block) > most_bytes) break;
    }
    batch_blocks = divide_up(p.batch, batch_block);
  }

  bool is_first() const { return problem.layout == Layout::batch_first; }
  int64_t tasks() const { return problem.a * j_blocks * batch_blocks; }
  // Of the weights of one r tile and all k, of a block of X of one j, and of the sums of one j.
  int64_t row_words() const { return depth_tiles * planes * tile_words; }
  int64_t x_words() const { return batch_block / 16 * row_words(); }
  int64_t sums_floats() const { return row_tiles * 16 * batch_block; }
  // Of a block of j, which each block of n reads.
  int64_t weight_bytes() const { return j_block * row_tiles * row_words() * 4; }
  // Whether a thread's part of the memory is within bounds.
  bool fits() const { return bytes(batch_block) <= 4 * most_bytes; }

 private:
  static constexpr int64_t most_bytes = 5 << 18;  // of the second-level cache, with room for what else is there
  // X and the sums of a block.
  int64_t bytes(int64_t block) const { return j_block * block * (row_words() / 16 + row_tiles * 16) * 4; }
};

// What a task takes.
struct AmxBlock {
  int64_t i, j, count_j, n, count_n;

  AmxBlock() = default;
  AmxBlock(const AmxPlan& plan, int64_t task) {
    const int64_t ij = task / plan.batch_blocks;
    i = ij / plan.j_blocks, j = ij % plan.j_blocks * plan.j_block, n = task % plan.batch_blocks * plan.batch_block;
    count_j = smaller(plan.j_block, plan.problem.d - j), count_n = smaller(plan.batch_block, plan.problem.batch - n);
  }
  int64_t columns() const { return divide_up(count_n, 16); }
};

// Weights as tiles of 16 r × 32 k: packed[i·d + j][r tile][k tile][plane], zeros past b and c.
template <class Element>
struct AmxWeights {
  using Stored = typename Element::Stored;
  static constexpr int planes = Planes<Element>::count;
  static constexpr bool watches = std::is_same<Element, Float32>::value;  // of 16 bits all products are exact
  const AmxPlan& plan;
  const Operands& operands;
  uint32_t* packed;
  bool* badly_scaled;  // set where a third of the pairs in some row of float32 are far apart, or next to nothing

  void work(Tasks& tasks) const {
    const Buffer watched(watches ? plan.problem.d : 1);
    for (int64_t first, last; tasks.take(first, last);) {
      for (int64_t task = first; task < last; ++task) {
        pack(task / plan.row_tiles, task % plan.row_tiles, reinterpret_cast<int32_t*>(watched.get()));
      }
    }
  }

 private:
  struct EvenAndOdd {
    Vector even, odd;
  };

  // watched: how many pairs of a row are far apart, or next to nothing; a number for each j.
  void pack(int64_t i, int64_t row_tile, int32_t* watched) const {
    const Problem& p = plan.problem;
    const int64_t* strides = operands.weight_strides;
    for (int64_t row = 0; row < 16; ++row) {
      const int64_t r = row_tile * 16 + row;
      const Stored* from = static_cast<const Stored*>(operands.weight) + i * strides[0] + r * strides[1];
      for (int64_t j = 0; watches && j < p.d; ++j) watched[j] = 0;
      for (int64_t tile = 0; tile < plan.depth_tiles; ++tile) {
        const int64_t first_k = tile * tile_k, count = r < p.b ? smaller(tile_k, p.c - first_k) : 0;
        for (int64_t j = 0; j < p.d; ++j) {
          uint32_t* to = packed + ((i * p.d + j) * plan.row_tiles + row_tile) * plan.row_words() +
                         tile * planes * tile_words + row * 16;
          const EvenAndOdd pairs = load_row(from + first_k * strides[2] + j * strides[3], strides[2], count);
          split_pairs<planes>(pairs.even, pairs.odd, to);
          if (watches) watched[j] += pairs_to_watch(pairs.even, pairs.odd);
        }
      }
      for (int64_t j = 0; watches && j < p.d; ++j) {
        if (watched[j] > 0 && int64_t{3} * watched[j] >= p.c / 2)
          __atomic_store_n(badly_scaled, true, __ATOMIC_RELAXED);
      }
    }
  }

  // Even k in one vector, odd in the other.
  EvenAndOdd load_row(const Stored* from, int64_t stride, int64_t count) const {
    if constexpr (watches) {
      if (count == tile_k && 2 * tile_k * stride <= INT32_MAX) {
        const __m512i steps = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        const __m512i places = _mm512_mullo_epi32(steps, _mm512_set1_epi32(int32_t(stride)));
        return {(Vector)_mm512_i32gather_ps(places, from, 4), (Vector)_mm512_i32gather_ps(places, from + stride, 4)};
      }
    }
    alignas(64) Stored even[16] = {}, odd[16] = {};
    for (int64_t k = 0; k < count / 2; ++k) even[k] = from[2 * k * stride], odd[k] = from[(2 * k + 1) * stride];
    if (count % 2) even[count / 2] = from[(count - 1) * stride];
    return {Element::load(even), Element::load(odd)};
  }
};

}  // namespace KSMM_VARIANT
}  // namespace ksmm
