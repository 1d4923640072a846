// batch_last: how the product is cut into tasks, and the weights in the order in which the multiplication reads them.
#pragma once

#include "tile.h"
#include "work.h"

namespace ksmm {
namespace KSMM_VARIANT {

// What is multiplied at a time: some k of a block of X and a block of rows of the weights.
struct LastStage {
  int64_t ij, first_row, last_row, first_panel, last_panel, k, depth;
};

struct LastPlan {
  using Stage = LastStage;
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
  LastStage first_stage(int64_t task) const {
    const int64_t first_row = task % row_blocks * row_block;
    const int64_t first_panel = task / row_blocks % batch_blocks * batch_block;
    return {task / row_blocks / batch_blocks,
            first_row,
            smaller(first_row + row_block, row_panels),
            first_panel,
            smaller(first_panel + batch_block, batch_panels),
            0,
            0};
  }
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

}  // namespace KSMM_VARIANT
}  // namespace ksmm
