// batch_first: Y[n, i, r, j] = sum over k of X[n, i, k, j] W[i, r, k, j]; lanes are consecutive (r, j).
//
// batch_first_plan.h says which outputs share a vector, and which vectors share X: lanes are never wasted, whatever d,
// nothing is transposed, and X and Y are read and written in order.
//   weights   packed once a call, by (i, group), N vectors at a time, k-major: a panel; for few rows they
//             are read where they are stored, if that is in such vectors;
//   a task    is a block of n, some panels of one i (and, for d >= L, of one group). It reads a copy of its block
//             of X, some k at a time, in rows that lie a fixed distance apart, made while the block before is
//             multiplied.
#pragma once

#include "batch_first_copy.h"
#include "batch_first_weights.h"
#include "bias.h"
#include "stages.h"

namespace ksmm {
namespace KSMM_VARIANT {

template <class Element, class Spread, int N>
struct FirstTasks {
  using Stored = typename Element::Stored;
  using Format = RowFormat<Spread>;
  using Copy = FirstCopy<Element, Spread, N>;
  static constexpr int M = tile_rows(N);
  static constexpr int row_step = Copy::row_step;
  const FirstPlan& plan;
  const Operands& operands;
  const float* weights;
  const float* bias;

  struct Panel {
    int64_t output;  // the first of its first vector
    const float* weights;
    bool is_stored;  // whether that is where they are in memory (batch_first_weights.h), else they are packed
    int64_t vector_step;
    Spread spread;
  };

  void work(Tasks& tasks) const {
    const int64_t rows_floats = plan.batch_block * row_step + lanes;
    const int64_t sums = plan.depth < plan.steps ? plan.batch_block / M * plan.panel_block : 1;
    const Buffer buffer(2 * rows_floats + sums * tile_floats);
    float* const rest = buffer.get() + 2 * rows_floats;
    multiply_stages<Copy>(
        plan, tasks, buffer.get(), buffer.get() + rows_floats,
        [&](const FirstStage& stage, float* rows) { return Copy(plan, operands, stage, rows); },
        [&](const FirstStage& stage, const float* rows, Copy& copy) { multiply(stage, rows, rest, copy); });
  }

  void multiply(const FirstStage& stage, const float* rows, float* sums, Copy& copy) const {
    // The longer operand of the two stays in the first-level cache.
    if (!Format::slices(plan.problem.d)) {
      for (int64_t number = stage.first_panel; number < stage.last_panel; ++number) {
        const Panel panel = panel_of(stage, number);
        for (int64_t m = 0; m < stage.count; m += M) multiply_panel(stage, number, panel, m, rows, sums, copy);
      }
    } else {
      for (int64_t m = 0; m < stage.count; m += M) {
        Panel panel = panel_of(stage, stage.first_panel);
        for (int64_t number = stage.first_panel; number < stage.last_panel; ++number) {
          multiply_panel(stage, number, panel, m, rows, sums, copy);
          if (number + 1 < stage.last_panel) next_panel(stage, number + 1, panel);
        }
      }
    }
  }

  Panel panel_of(const FirstStage& stage, int64_t number) const {
    const StoredPanel stored = stored_panel<Element>(plan, operands, stage.set, number);
    const float* packed = weights + (stage.set * plan.set_panels + number) * plan.panel_floats() + stage.k * N * lanes;
    const float* from = stored.at ? stored.at + stage.k * operands.weight_strides[2] : packed;
    const int64_t output = plan.first_output(stage.set, number);
    if constexpr (std::is_same<Spread, Reorder>::value) {
      return {output, from, stored.at != nullptr, stored.vector_step, {plan.orders[plan.group_of(stage.set, number)]}};
    } else {
      return {output, from, stored.at != nullptr, stored.vector_step, {}};
    }
  }

  // Of panels of one group, which are packed, all distances are the same.
  KSMM_INLINE void next_panel(const FirstStage& stage, int64_t number, Panel& panel) const {
    if (plan.shared || plan.reads_stored()) {
      panel = panel_of(stage, number);
    } else {
      panel.output += N * plan.group_step, panel.weights += plan.panel_floats();
    }
  }

  // Calls multiply(the weights of the panel).
  template <class Multiply>
  KSMM_INLINE void with_vectors(const Panel& panel, const Multiply& multiply) const {
    if constexpr (std::is_same<Element, Float32>::value) {
      if (panel.is_stored) return multiply(StoredVectors{panel.weights, operands.weight_strides[2], panel.vector_step});
    }
    multiply(PackedVectors<N>{panel.weights});
  }

  void multiply_panel(const FirstStage& stage, int64_t number, const Panel& panel, int64_t m, const float* rows,
                      float* sums, Copy& copy) const {
    const Problem& p = plan.problem;
    const int64_t output = panel.output, count = smaller(M, stage.count - m);
    if (output >= plan.outputs()) return;  // a group with fewer vectors than the first one
    const bool is_last = stage.k + stage.depth == plan.steps;
    float* tile = sums;
    if (plan.depth < plan.steps) tile += (m / M * plan.panel_block + number - stage.first_panel) * tile_floats;
    Stored* y = static_cast<Stored*>(operands.y) + ((stage.n + m) * p.a + stage.i) * plan.outputs() + output;
    TileTarget target{stage.k > 0 ? tile : nullptr, tile, N * lanes, lanes};
    bool direct = false;
    if constexpr (std::is_same<Element, Float32>::value) {
      direct =
          is_last && count == compiled_rows<N>(count) && output + (N - 1) * plan.group_step + lanes <= plan.outputs();
      if (direct) target = {target.start, y, p.a * plan.outputs(), plan.group_step};
    }
    if (bias && is_last) {
      target.bias = bias + stage.i * plan.outputs() + output;
      target.bias_vector_step = plan.group_step;
    }
    with_vectors(panel, [&](auto vectors) {
      multiply_rows<Element, N, row_step, Consecutive>(count, stage.depth, Format::step(p.d), panel.spread,
                                                       rows + m * row_step, vectors, target, copy);
    });
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
  const bool shared = !std::is_same<Spread, Consecutive>::value;
  const FirstPlan plan(problem, shared, RowFormat<Spread>::most_depth(problem.d), Element::word_k);
  FirstWeights<Element> pack{plan, operands};
  const bool packs = pack.any();
  const Buffer weights(packs ? plan.sets * plan.set_panels * plan.panel_floats() : 1);
  pack.packed = weights.get();
  if (packs) run(pack, plan.sets * plan.set_panels, parallel_for);
  const Bias<Element> bias(problem, operands, plan.width * plan.group_step);
  const int64_t together = shared ? 1 : plan.used_groups * plan.panel_blocks;  // groups share lines of X and of Y
  const auto multiply = [&](auto width) {
    constexpr int N = decltype(width)::value;
    run(FirstTasks<Element, Spread, N>{plan, operands, weights.get(), bias.get()}, plan.tasks(), parallel_for,
        together);
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
  // A permutation takes AVX2 two instructions, for which a multiply-add waits: where a group has enough vectors it pays
  // to do it once, on the way into the copy of X.
  const bool turns = lanes == 8 && problem.b * FirstPlan::common_divisor(d, lanes) >= 8 * lanes;
  if (d < lanes && !turns) return multiply_spread<Element, Reorder>(problem, operands, parallel_for);
  return multiply_spread<Element, Consecutive>(problem, operands, parallel_for);
}

}  // namespace KSMM_VARIANT
}  // namespace ksmm
