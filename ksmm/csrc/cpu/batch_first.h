// batch_first: Y[n, i, r, j] = sum over k of X[n, i, k, j] W[i, r, k, j]; lanes are consecutive (r, j).
//
// batch_first_plan.h says which outputs share a vector, and which vectors share X: lanes are never wasted, whatever d,
// nothing is transposed, and X and Y are read and written in order.
//   weights   packed once a call, by (i, group), N vectors at a time, k-major: a panel;
//   a task    is a block of n, some panels of one i (and, for d >= L, of one group). It copies its block of X, some k
//             at a time, into rows that lie a fixed distance apart, and multiplies.
#pragma once

#include "batch_first_weights.h"
#include "bias.h"
#include "work.h"

namespace ksmm {
namespace KSMM_VARIANT {

template <class Element, class Spread, int N>
struct FirstTasks {
  using Stored = typename Element::Stored;
  using Format = RowFormat<Spread>;
  static constexpr int M = tile_rows(N);
  // The margin keeps rows out of each other's cache sets, and takes what a vector reads or writes past a row's end.
  static constexpr int row_step = Format::most_floats + lanes;
  const FirstPlan& plan;
  const Operands& operands;
  const float* weights;
  const float* bias;

  struct Block {  // what a task works on
    int64_t set, i, first_panel, last_panel, n, count;
  };

  void work(Tasks& tasks) const {
    const int64_t rows_floats = plan.batch_block * row_step + lanes;
    const int64_t sums = plan.depth < plan.steps ? plan.batch_block / M * plan.panel_block : 1;
    const Buffer buffer(rows_floats + sums * tile_floats);
    for (int64_t first, last; tasks.take(first, last);) {
      for (int64_t task = first; task < last; ++task)
        multiply(block_of(task), buffer.get(), buffer.get() + rows_floats);
    }
  }

  Block block_of(int64_t task) const {
    const int64_t part = task % plan.panel_blocks, set = task / plan.panel_blocks % plan.sets;
    const int64_t n = task / plan.panel_blocks / plan.sets * plan.batch_block;
    const int64_t first = part * plan.panel_block;
    return {set,   plan.set_i(set),
            first, smaller(first + plan.panel_block, plan.set_panels),
            n,     smaller(plan.batch_block, plan.problem.batch - n)};
  }

  void multiply(const Block& block, float* rows, float* sums) const {
    const int64_t steps = plan.steps;
    for (int64_t k = 0; k < steps; k += plan.depth) {
      const int64_t depth = smaller(plan.depth, steps - k);
      copy_inputs(block, k, depth, rows);
      // The longer operand of the two stays in the first-level cache.
      if (!Format::slices(plan.problem.d)) {
        for (int64_t panel = block.first_panel; panel < block.last_panel; ++panel) {
          for (int64_t m = 0; m < block.count; m += M) multiply_panel(block, panel, m, k, depth, rows, sums);
        }
      } else {
        for (int64_t m = 0; m < block.count; m += M) {
          for (int64_t panel = block.first_panel; panel < block.last_panel; ++panel) {
            multiply_panel(block, panel, m, k, depth, rows, sums);
          }
        }
      }
    }
  }

  void copy_inputs(const Block& block, int64_t k, int64_t depth, float* rows) const {
    const Problem& p = plan.problem;
    const Interleave<Element> interleave(smaller(p.d, lanes));
    for (int64_t m = 0; m < block.count; ++m) {
      const Stored* from = static_cast<const Stored*>(operands.x) + (block.n + m) * operands.x_stride;
      const int64_t first_k = k * Element::word_k, feature = (block.i * p.c + first_k) * p.d;
      if (!Format::slices(p.d)) {
        interleave(from + feature, (p.c - first_k) * p.d, depth, rows + m * row_step, operands.x_stride);
      } else {
        copy_slices(from + feature, p.c - first_k, depth, p.a * p.c * p.d - feature,
                    plan.group_of(block.set, 0) * lanes % p.d, rows + m * row_step);
      }
    }
    const int64_t rest = block.count % M;
    if (rest) std::memset(rows + block.count * row_step, 0, (compiled_rows<N>(rest) - rest) * row_step * sizeof(float));
  }

  // For each word of k the elements j, j + 1, …, wrapped around at d, of a row that ends after `rest` elements. For d <
  // L what follows the d elements is not used.
  void copy_slices(const Stored* from, int64_t left_k, int64_t depth, int64_t rest, int64_t j, float* to) const {
    constexpr int word_k = Element::word_k;
    const int64_t d = plan.problem.d;
    for (int64_t k = 0; k < depth; ++k, from += word_k * d, rest -= word_k * d, left_k -= word_k, to += lanes) {
      const Stored* next = word_k == 2 && left_k > 1 ? from + d : nullptr;  // of the second k of a word
      const Stored* next_j = next ? next + j : nullptr;
      const int64_t last_rest = next ? rest - d : rest;  // after that one
      prefetch(from, j + operands.x_stride);
      if (j + lanes <= last_rest) {
        store(to, load_words<Element>(from + j, next_j));
      } else {
        store(to, load_some_words<Element>(from + j, next_j, smaller(lanes, last_rest - j)));
      }
      // Writes past the lanes of this k; the next k overwrites that.
      if (d >= lanes && j + lanes > d) store(to + d - j, load_words<Element>(from, next));
    }
  }

  Spread spread_of(int64_t group) const {
    if constexpr (std::is_same<Spread, Reorder>::value) {
      return {plan.orders[group]};
    } else {
      return {};
    }
  }

  void multiply_panel(const Block& block, int64_t panel, int64_t m, int64_t k, int64_t depth, const float* rows,
                      float* sums) const {
    const Problem& p = plan.problem;
    const int64_t output = plan.first_output(block.set, panel), count = smaller(M, block.count - m);
    if (output >= plan.outputs()) return;  // a group with fewer vectors than the first one
    const bool is_last = k + depth == plan.steps;
    float* tile = sums;
    if (plan.depth < plan.steps) tile += (m / M * plan.panel_block + panel - block.first_panel) * tile_floats;
    Stored* y = static_cast<Stored*>(operands.y) + ((block.n + m) * p.a + block.i) * plan.outputs() + output;
    TileTarget target{k > 0 ? tile : nullptr, tile, N * lanes, lanes};
    bool direct = false;
    if constexpr (std::is_same<Element, Float32>::value) {
      direct =
          is_last && count == compiled_rows<N>(count) && output + (N - 1) * plan.group_step + lanes <= plan.outputs();
      if (direct) target = {target.start, y, p.a * plan.outputs(), plan.group_step};
    }
    if (bias && is_last) {
      target.bias = bias + block.i * plan.outputs() + output;
      target.bias_vector_step = plan.group_step;
    }
    const float* vectors = weights + (block.set * plan.set_panels + panel) * plan.panel_floats() + k * N * lanes;
    Nothing nothing;
    multiply_rows<Element, N, row_step, Consecutive>(count, depth, Format::step(p.d),
                                                     spread_of(plan.group_of(block.set, panel)), rows + m * row_step,
                                                     vectors, target, nothing);
    if (is_last && !direct) write_tile(tile, count, output, y);
  }

  void write_tile(const float* tile, int64_t count, int64_t output, Stored* y) const {
    for (int64_t m = 0; m < count; ++m, y += plan.problem.a * plan.outputs()) {
      for (int v = 0; v < N; ++v, tile += lanes) {
        const int64_t rest = plan.outputs() - output - v * plan.group_step;
        if (rest > 0) write<Element>(tile, smaller(lanes, rest), y + v * plan.group_step);
      }
    }
  }
};

template <class Element, class Spread>
void multiply_spread(const Problem& problem, const Operands& operands, ParallelFor parallel_for) {
  const FirstPlan plan(problem, RowFormat<Spread>::most_depth(problem.d), Element::word_k);
  const Buffer weights(plan.sets * plan.set_panels * plan.panel_floats());
  run(FirstWeights<Element>{plan, operands, weights.get()}, plan.sets * plan.set_panels, parallel_for);
  const Bias<Element> bias(problem, operands, plan.width * plan.group_step);
  const auto multiply = [&](auto width) {
    constexpr int N = decltype(width)::value;
    run(FirstTasks<Element, Spread, N>{plan, operands, weights.get(), bias.get()}, plan.tasks(), parallel_for);
  };
  with_width(plan.width, multiply);
}

template <class Element>
void multiply_batch_first(const Problem& problem, const Operands& operands, ParallelFor parallel_for) {
  const int64_t d = problem.d;
  if (d == 1) return multiply_spread<Element, Repeat<1>>(problem, operands, parallel_for);
  if (d == 2) return multiply_spread<Element, Repeat<2>>(problem, operands, parallel_for);
  if (d == 4 && lanes > 4) return multiply_spread<Element, Repeat<4>>(problem, operands, parallel_for);
  if (d == 8 && lanes > 8) return multiply_spread<Element, Repeat<8>>(problem, operands, parallel_for);
  if (d < lanes) return multiply_spread<Element, Reorder>(problem, operands, parallel_for);
  return multiply_spread<Element, Consecutive>(problem, operands, parallel_for);
}

}  // namespace KSMM_VARIANT
}  // namespace ksmm
