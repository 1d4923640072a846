// batch_last: Y[i, r, j, n] = sum over k of W[i, r, k, j] X[i, k, j, n]; lanes are consecutive n.
//
// For each (i, j) this is an ordinary matrix product whose operands have leading dimensions: nothing is permuted.
//   weights   packed once a call, by (i, j), M rows r at a time, k-major, so that a tile reads them in order;
//   a task    is one (i, j), a block of n and a block of r. It reads a copy of its block of X, some k at a
//             time (rows of X lie d·B apart: as they are, they would fall into the same few cache sets), which is made
//             while the block before is multiplied.
// A panel of X (N vectors wide) stays in the first-level cache while all r use it; the weights of the block of r stay
// in the second.
#pragma once

#include "batch_last_copy.h"
#include "batch_last_weights.h"
#include "bias.h"
#include "stages.h"

namespace ksmm {
namespace KSMM_VARIANT {

template <class Element, int N>
struct LastTasks {
  using Stored = typename Element::Stored;
  using Copy = LastCopy<Element, N>;
  static constexpr int M = tile_rows(N);
  const LastPlan& plan;
  const Operands& operands;
  const float* weights;
  const float* bias;

  void work(Tasks& tasks) const {
    const int64_t inputs_floats = plan.batch_block * plan.depth * N * lanes;
    const int64_t sums = plan.depth < plan.steps ? plan.batch_block * plan.row_block : 1;
    const Buffer buffer(2 * inputs_floats + sums * tile_floats);
    float* const rest = buffer.get() + 2 * inputs_floats;
    multiply_stages<Copy>(
        plan, tasks, buffer.get(), buffer.get() + inputs_floats,
        [&](const LastStage& stage, float* inputs) { return Copy(plan.problem, operands, stage, inputs); },
        [&](const LastStage& stage, const float* inputs, Copy& copy) { multiply(stage, inputs, rest, copy); });
  }

  void multiply(const LastStage& stage, const float* inputs, float* sums, Copy& copy) const {
    const Problem& p = plan.problem;
    const int64_t i = stage.ij / p.d, j = stage.ij % p.d, first_r = stage.first_row * M;
    const int64_t output = (i * p.b + first_r) * p.d + j;  // the first
    const bool is_last = stage.k + stage.depth == plan.steps;
    const float* const panels =
        weights + (stage.ij * plan.row_panels + stage.first_row) * plan.panel_floats() + stage.k * M;
    for (int64_t panel = stage.first_panel; panel < stage.last_panel; ++panel, inputs += stage.depth * N * lanes) {
      const int64_t n = panel * N * lanes, count = smaller(N * lanes, p.batch - n);
      Stored* y = static_cast<Stored*>(operands.y) + output * p.batch + n;
      const float *from = panels, *bias_of_row = bias && is_last ? bias + output : nullptr;
      for (int64_t row = stage.first_row; row < stage.last_row; ++row) {
        multiply_tile_of(stage, smaller(M, p.b - row * M), count, inputs, from, bias_of_row, sums, y, copy);
        y += M * p.d * p.batch, from += plan.panel_floats();
        if (bias_of_row) bias_of_row += M * p.d;
        if (plan.depth < plan.steps) sums += tile_floats;
      }
    }
  }

  KSMM_INLINE void multiply_tile_of(const LastStage& stage, int64_t rows, int64_t count, const float* inputs,
                                    const float* from, const float* bias_of_row, float* tile, Stored* y,
                                    Copy& copy) const {
    const int64_t y_step = plan.problem.d * plan.problem.batch;
    const bool is_last = stage.k + stage.depth == plan.steps;
    TileTarget target{stage.k > 0 ? tile : nullptr, tile, N * lanes, lanes, bias_of_row, plan.problem.d};
    bool direct = false;
    if constexpr (std::is_same<Element, Float32>::value) {
      direct = is_last && count == N * lanes && rows == compiled_rows<N>(rows);
      if (direct) target.sums = y, target.row_step = y_step;
    }
    multiply_rows<Element, N, 1, Repeat<1>>(rows, stage.depth, Constant<M>{}, Repeat<1>{}, from,
                                            PackedVectors<N>{inputs}, target, copy);
    if (is_last && !direct) {
      for (int64_t m = 0; m < rows; ++m) write<Element>(tile + m * N * lanes, count, y + m * y_step);
    }
  }
};

template <class Element>
void multiply_batch_last(const Problem& problem, const Operands& operands, ParallelFor parallel_for) {
  const LastPlan plan(problem, Element::word_k);
  const Buffer weights(problem.a * problem.d * plan.row_panels * plan.panel_floats());
  const LastWeights<Element> pack{plan, operands, weights.get()};
  run(pack, pack.tasks(), parallel_for);
  const Bias<Element> bias(problem, operands, plan.rows * problem.d);
  const auto multiply = [&](auto width) {
    constexpr int N = decltype(width)::value;
    run(LastTasks<Element, N>{plan, operands, weights.get(), bias.get()}, plan.tasks(), parallel_for);
  };
  with_width(plan.width, multiply);
}

}  // namespace KSMM_VARIANT
}  // namespace ksmm
