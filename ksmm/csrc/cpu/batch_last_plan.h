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
  static constexpr int64_t block = 16;
  const LastPlan& plan;
  const Operands& operands;
  float* packed;

  void work(Tasks& tasks) const {
    for (int64_t first, last; tasks.take(first, last);) {
      for (int64_t task = first; task < last; ++task) pack(task / plan.row_panels, task % plan.row_panels);
    }
  }

  // A line of the weights is read once, whichever dimensions are near each other in memory.
  void pack(int64_t i, int64_t panel) const {
    const int64_t d = plan.problem.d;
    const int64_t* strides = operands.weight_strides;
    const bool in_lines = strides[1] == d && (d == 1 || strides[3] == 1);
    if (in_lines && d == 1 && panel * plan.rows + vectors_of_rows() <= plan.problem.b) return pack_vectors(i, panel);
    if (in_lines && d > 1 && d < block) return pack_lines(i, panel);
    for (int64_t j = 0; j < d; j += block) {
      for (int64_t k = 0; k < plan.steps; k += block) {
        const int64_t last_k = smaller(k + block, plan.steps), last_j = smaller(j + block, d);
        if (strides[1] < strides[2] && d >= block) {
          pack_block(i, panel, k, last_k, j, last_j);
        } else {
          for (int64_t m = 0; m < plan.rows; ++m) pack_square(i, panel, m, k, last_k, j, last_j);
        }
      }
    }
  }

  int64_t vectors_of_rows() const { return divide_up(plan.rows, lanes) * lanes; }

  // Rows side by side. What a vector has too many of is written over by the next k, while there are some more.
  void pack_vectors(int64_t i, int64_t panel) const {
    float* to = to_panel(i, panel, 0);
    float* const end = to + plan.panel_floats();
    for (int64_t k = 0; k < plan.steps; ++k, to += plan.rows) {
      const Stored* first = from(i, panel, 0, k);
      const Stored* second = next_k(first, k);
      if (to + vectors_of_rows() <= end) {
        for (int64_t m = 0; m < plan.rows; m += lanes)
          store(to + m, load_words<Element>(first + m, second ? second + m : nullptr));
      } else {
        convert_words<Element>(first, second, plan.rows, to, 0);
      }
    }
  }

  // All outputs of a k side by side.
  void pack_lines(int64_t i, int64_t panel) const {
    const int64_t d = plan.problem.d, rows = smaller(plan.rows, plan.problem.b - panel * plan.rows);
    float words[most_rows * block + lanes] = {};
    for (int64_t k = 0; k < plan.steps; ++k) {
      const Stored* first = from(i, panel, 0, k);
      convert_words<Element>(first, next_k(first, k), rows * d, words, 0);
      for (int64_t j = 0; j < d; ++j) {
        float* to = to_panel(i, panel, j) + k * plan.rows;
        for (int64_t m = 0; m < plan.rows; ++m) to[m] = words[m * d + j];
      }
    }
  }

  // One row.
  KSMM_INLINE void pack_square(int64_t i, int64_t panel, int64_t m, int64_t first_k, int64_t last_k, int64_t first_j,
                               int64_t last_j) const {
    const int64_t* strides = operands.weight_strides;
    const bool there = panel * plan.rows + m < plan.problem.b;
    for (int64_t j = first_j; j < last_j; ++j) {
      float* to = to_panel(i, panel, j) + m;
      for (int64_t k = first_k; k < last_k; ++k) {
        const Stored* first = from(i, panel, m, k) + j * strides[3];
        to[k * plan.rows] = there ? read_word<Element>(first, next_k(first, k)) : 0.0f;
      }
    }
  }

  // All rows, by way of the first-level cache, where lines that are a power of two apart would meet in a few sets.
  void pack_block(int64_t i, int64_t panel, int64_t first_k, int64_t last_k, int64_t first_j, int64_t last_j) const {
    alignas(64) float words[block][most_rows][block];
    const int64_t stride = operands.weight_strides[3];
    for (int64_t k = first_k; k < last_k; ++k) {
      for (int64_t m = 0; m < plan.rows; ++m) {
        float* to = words[k - first_k][m];
        const Stored* first = from(i, panel, m, k) + first_j * stride;
        const Stored* second = next_k(first, k);
        if (panel * plan.rows + m >= plan.problem.b) {
          std::memset(to, 0, sizeof(words[0][0]));
        } else if (stride == 1 && last_j - first_j == block) {
          convert_words<Element>(first, second, block, to, 0);
        } else {
          for (int64_t at = 0; at < last_j - first_j; ++at)
            to[at] = read_word<Element>(first + at * stride, second ? second + at * stride : nullptr);
        }
      }
    }
    for (int64_t j = first_j; j < last_j; ++j) {
      float* to = to_panel(i, panel, j) + first_k * plan.rows;
      for (int64_t k = first_k; k < last_k; ++k, to += plan.rows)
        for (int64_t m = 0; m < plan.rows; ++m) to[m] = words[k - first_k][m][j - first_j];
    }
  }

  const Stored* from(int64_t i, int64_t panel, int64_t m, int64_t k) const {
    const int64_t* strides = operands.weight_strides;
    return static_cast<const Stored*>(operands.weight) + i * strides[0] + (panel * plan.rows + m) * strides[1] +
           k * Element::word_k * strides[2];
  }
  // The same element of the next k, which a word holds as well; null where there is none.
  const Stored* next_k(const Stored* first, int64_t k) const {
    return k * Element::word_k + 1 < plan.problem.c ? first + operands.weight_strides[2] : nullptr;
  }
  float* to_panel(int64_t i, int64_t panel, int64_t j) const {
    return packed + ((i * plan.problem.d + j) * plan.row_panels + panel) * plan.panel_floats();
  }
};

}  // namespace KSMM_VARIANT
}  // namespace ksmm
