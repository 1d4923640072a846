// batch_last: Y[i, r, j, n] = sum over k of W[i, r, k, j] X[i, k, j, n]; lanes are consecutive n.
//
// For each (i, j) this is an ordinary matrix product whose operands have leading dimensions: nothing is permuted.
//   weights   packed once a call, by (i, j), M rows r at a time, k-major, so that a tile reads them in order;
//   a task    is one (i, j), a block of n and a block of r. It copies its block of X, some k at a time, into a tile
//             (rows of X lie d·B apart: as they are, they would fall into the same few cache sets) and multiplies.
// A panel of X (N vectors wide) stays in the first-level cache while all r use it; the weights of the block of r stay
// in the second.
#pragma once

#include "bias.h"
#include "element.h"
#include "tile.h"
#include "work.h"

namespace ksmm {
namespace KSMM_VARIANT {

struct LastPlan {
  static constexpr int64_t most_depth = 128;

  Problem problem;
  int width, rows;                                  // N and M of the tiles
  int64_t row_panels, row_block, row_blocks;        // panels of M rows in all, in a task, tasks over them
  int64_t batch_panels, batch_block, batch_blocks;  // the same of N vectors over n
  int64_t steps, depth;                             // words along c, and at a time

  LastPlan(const Problem& p, int word_k) : problem(p), steps(divide_up(p.c, word_k)) {
    const int64_t vectors = divide_up(p.batch, lanes);
    width = choose_width(vectors);
    rows = tile_rows(width);
    row_panels = divide_up(p.b, rows);
    row_block = smaller(row_panels, divide_up(256, rows));
    row_blocks = divide_up(row_panels, row_block);
    batch_panels = divide_up(vectors, width);
    batch_block = smaller(batch_panels, divide_up(256, width * lanes));
    while (batch_block > 1 && p.a * p.d * row_blocks * divide_up(batch_panels, batch_block) < 64) batch_block /= 2;
    batch_blocks = divide_up(batch_panels, batch_block);
    depth = divide_up(steps, divide_up(steps, most_depth));
  }

  int64_t tasks() const { return problem.a * problem.d * batch_blocks * row_blocks; }
  int64_t panel_floats() const { return steps * rows; }
};

// Weights of (i, panel of M rows) for all j: packed[((i·d + j)·row_panels + panel)·steps·M + k·M + m], zeros past b.
template <class Element>
struct LastWeights {
  using Stored = typename Element::Stored;
  const LastPlan& plan;
  const Operands& operands;
  float* packed;

  void work(Tasks& tasks) const {
    for (int64_t first, last; tasks.take(first, last);) {
      for (int64_t task = first; task < last; ++task) pack(task / plan.row_panels, task % plan.row_panels);
    }
  }

  void pack(int64_t i, int64_t panel) const {
    // Squares of 16 k × 16 j, so that whichever of the two is contiguous in memory, a cache line is read once.
    const Problem& p = plan.problem;
    for (int64_t j = 0; j < p.d; j += 16) {
      for (int64_t k = 0; k < plan.steps; k += 16) {
        for (int64_t m = 0; m < plan.rows; ++m) pack_square(i, panel, m, k, j);
      }
    }
  }

  void pack_square(int64_t i, int64_t panel, int64_t m, int64_t first_k, int64_t first_j) const {
    const Problem& p = plan.problem;
    const int64_t* strides = operands.weight_strides;
    const int64_t r = panel * plan.rows + m;
    const Stored* from = static_cast<const Stored*>(operands.weight) + i * strides[0] + r * strides[1];
    const int64_t last_k = smaller(first_k + 16, plan.steps), last_j = smaller(first_j + 16, p.d);
    for (int64_t j = first_j; j < last_j; ++j) {
      float* to = packed + ((i * p.d + j) * plan.row_panels + panel) * plan.panel_floats() + m;
      for (int64_t k = first_k; k < last_k; ++k) {
        const Stored* first = from + k * Element::word_k * strides[2] + j * strides[3];
        const Stored* second = k * Element::word_k + 1 < p.c ? first + strides[2] : nullptr;
        to[k * plan.rows] = r < p.b ? read_word<Element>(first, second) : 0.0f;
      }
    }
  }
};

template <class Element, int N>
struct LastTasks {
  using Stored = typename Element::Stored;
  static constexpr int M = tile_rows(N);
  const LastPlan& plan;
  const Operands& operands;
  const float* weights;
  const float* bias;

  void work(Tasks& tasks) const {
    const int64_t inputs_floats = plan.batch_block * plan.depth * N * lanes;
    const int64_t sums = plan.depth < plan.steps ? plan.batch_block * plan.row_block : 1;
    const Buffer buffer(inputs_floats + sums * tile_floats);
    for (int64_t first, last; tasks.take(first, last);) {
      for (int64_t task = first; task < last; ++task) multiply(task, buffer.get(), buffer.get() + inputs_floats);
    }
  }

  void multiply(int64_t task, float* inputs, float* sums) const {
    const int64_t row_block = task % plan.row_blocks;
    const int64_t batch_block = task / plan.row_blocks % plan.batch_blocks;
    const int64_t ij = task / plan.row_blocks / plan.batch_blocks;
    const int64_t first_row = row_block * plan.row_block,
                  last_row = smaller(first_row + plan.row_block, plan.row_panels);
    const int64_t first = batch_block * plan.batch_block, last = smaller(first + plan.batch_block, plan.batch_panels);
    const int64_t steps = plan.steps;
    for (int64_t k = 0; k < steps; k += plan.depth) {
      const int64_t depth = smaller(plan.depth, steps - k);
      copy_inputs(ij, first, last, k, depth, inputs);
      for (int64_t panel = first; panel < last; ++panel) {
        const float* block = inputs + (panel - first) * depth * N * lanes;
        for (int64_t row = first_row; row < last_row; ++row) {
          float* tile =
              plan.depth < steps ? sums + ((panel - first) * plan.row_block + row - first_row) * tile_floats : sums;
          multiply_panels(ij, panel, row, k, depth, block, tile);
        }
      }
    }
  }

  // X[i, k, j, n] to inputs[panel][k][v][lane], zeros past the batch.
  void copy_inputs(int64_t ij, int64_t first, int64_t last, int64_t k, int64_t depth, float* inputs) const {
    const Problem& p = plan.problem;
    const int64_t i = ij / p.d, j = ij % p.d, step = p.d * operands.x_stride;
    const int64_t first_k = k * Element::word_k;
    const Stored* from = static_cast<const Stored*>(operands.x) + ((i * p.c + first_k) * p.d + j) * operands.x_stride;
    for (int64_t row = 0; row < depth; ++row, from += Element::word_k * step) {
      const Stored* next = first_k + row * Element::word_k + 1 < p.c ? from + step : nullptr;
      for (int64_t panel = first; panel < last; ++panel) {
        const int64_t n = panel * N * lanes, count = smaller(N * lanes, p.batch - n);
        float* to = inputs + ((panel - first) * depth + row) * N * lanes;
        if (count < N * lanes) std::memset(to, 0, N * lanes * sizeof(float));
        convert_words<Element>(from + n, next ? next + n : nullptr, count, to, 2 * Element::word_k * step);
      }
    }
  }

  void multiply_panels(int64_t ij, int64_t panel, int64_t row, int64_t k, int64_t depth, const float* block,
                       float* tile) const {
    const Problem& p = plan.problem;
    const int64_t i = ij / p.d, j = ij % p.d, n = panel * N * lanes, r = row * M;
    const int64_t rows = smaller(M, p.b - r), count = smaller(N * lanes, p.batch - n);
    const bool is_last = k + depth == plan.steps;
    Stored* y = static_cast<Stored*>(operands.y) + ((i * p.b + r) * p.d + j) * p.batch + n;
    TileTarget target{k > 0 ? tile : nullptr, tile, N * lanes, lanes};
    bool direct = false;
    if constexpr (std::is_same<Element, Float32>::value) {
      direct = is_last && count == N * lanes && rows == compiled_rows<N>(rows);
      if (direct) target = {target.start, y, p.d * p.batch, lanes};
    }
    if (bias && is_last) {
      target.bias = bias + (i * p.b + r) * p.d + j;
      target.bias_row_step = p.d;
    }
    const float* from = weights + (ij * plan.row_panels + row) * plan.panel_floats() + k * M;
    multiply_rows<Element, N, 1, Repeat<1>>(rows, depth, Constant<M>{}, Repeat<1>{}, from, block, target);
    if (is_last && !direct) {
      for (int64_t m = 0; m < rows; ++m) write<Element>(tile + m * N * lanes, count, y + m * p.d * p.batch);
    }
  }
};

template <class Element>
void multiply_batch_last(const Problem& problem, const Operands& operands, ParallelFor parallel_for) {
  const LastPlan plan(problem, Element::word_k);
  const Buffer weights(problem.a * problem.d * plan.row_panels * plan.panel_floats());
  run(LastWeights<Element>{plan, operands, weights.get()}, problem.a * plan.row_panels, parallel_for);
  const Bias<Element> bias(problem, operands, plan.rows * problem.d);
  const auto multiply = [&](auto width) {
    constexpr int N = decltype(width)::value;
    run(LastTasks<Element, N>{plan, operands, weights.get(), bias.get()}, plan.tasks(), parallel_for);
  };
  with_width(plan.width, multiply);
}

}  // namespace KSMM_VARIANT
}  // namespace ksmm
