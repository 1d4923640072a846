// batch_last: the weights in the order in which the multiplication reads them, by (i, j) and panels of M rows.
#pragma once

#include "batch_last_plan.h"
#include "words.h"
#include "work.h"

namespace ksmm {
namespace KSMM_VARIANT {

// packed[((i·d + j)·row_panels + panel)·steps·M + k·M + m], zeros past b.
template <class Element>
struct LastWeights {
  using Stored = typename Element::Stored;
  static constexpr int64_t block = 16;
  const LastPlan& plan;
  const Operands& operands;
  float* packed;

  // A task is an i and some neighbouring panels, all j.
  int64_t panels_of_task() const { return larger(1, smaller(16, plan.problem.a * plan.row_panels / 8)); }
  int64_t tasks_of_i() const { return divide_up(plan.row_panels, panels_of_task()); }
  int64_t tasks() const { return plan.problem.a * tasks_of_i(); }

  void work(Tasks& tasks) const {
    for (int64_t first, last; tasks.take(first, last);) {
      for (int64_t task = first; task < last; ++task) {
        const int64_t panel = task % tasks_of_i() * panels_of_task();
        pack(task / tasks_of_i(), panel, smaller(panel + panels_of_task(), plan.row_panels));
      }
    }
  }

  // A line of the weights is read once, whichever dimensions are near each other in memory.
  void pack(int64_t i, int64_t first_panel, int64_t last_panel) const {
    const int64_t d = plan.problem.d;
    const int64_t* strides = operands.weight_strides;
    if (strides[1] == d && (d == 1 || strides[3] == 1) && d < block) return pack_lines(i, first_panel, last_panel);
    for (int64_t panel = first_panel; panel < last_panel; ++panel) {
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
  }

  // All outputs of a k are side by side: some k at a time, of which the first-level cache keeps the lines that two
  // panels share, while the next are asked for, since each may lie in another page.
  void pack_lines(int64_t i, int64_t first_panel, int64_t last_panel) const {
    constexpr int64_t together = 8;
    for (int64_t first = 0; first < plan.steps; first += together) {
      const int64_t last = smaller(first + together, plan.steps);
      for (int64_t panel = first_panel; panel < last_panel; ++panel) {
        for (int64_t k = first; k < last; ++k) {
          prefetch(from(i, panel, 0, k), together * Element::word_k * operands.weight_strides[2]);
          pack_line(i, panel, k);
        }
      }
    }
  }

  // The rows of a panel for one k. What vectors have too many of is written over by the next k, while there are some
  // more.
  KSMM_INLINE void pack_line(int64_t i, int64_t panel, int64_t k) const {
    const int64_t d = plan.problem.d, rows = smaller(plan.rows, plan.problem.b - panel * plan.rows);
    const int64_t vectors = divide_up(plan.rows, lanes) * lanes, squares = divide_up(plan.rows, 4) * 4;
    const Stored* first = from(i, panel, 0, k);
    const Stored* second = next_k(first, k);
    float* to = to_panel(i, panel, 0) + k * plan.rows;
    if (d == 1 && panel * plan.rows + vectors <= plan.problem.b && k * plan.rows + vectors <= plan.panel_floats()) {
      for (int64_t m = 0; m < plan.rows; m += lanes)
        store(to + m, load_words<Element>(first + m, second ? second + m : nullptr));
      return;
    }
    float words[most_rows * block];
    convert_words<Element>(first, second, rows * d, words, 0);
    std::memset(words + rows * d, 0, static_cast<size_t>((squares - rows) * d) * sizeof(float));
    const int64_t step = plan.row_panels * plan.panel_floats();  // from one j to the next
#if defined(__AVX2__)
    if (k * plan.rows + squares <= plan.panel_floats() && (d == 2 || d % 4 == 0)) {
      for (int64_t m = 0; m < squares; m += 4) {
        if (d == 2) split_pairs(words + m * 2, to + m, to + step + m);
        for (int64_t j = 0; j + 4 <= d; j += 4) transpose_four(words + m * d + j, d, to + j * step + m, step);
      }
      return;
    }
#endif
    for (int64_t j = 0; j < d; ++j)
      for (int64_t m = 0; m < plan.rows; ++m) to[j * step + m] = words[m * d + j];
  }

#if defined(__AVX2__)
  // even[n] = from[2 n], odd[n] = from[2 n + 1], four of each.
  static KSMM_INLINE void split_pairs(const float* from, float* even, float* odd) {
    const __m128 first = _mm_loadu_ps(from), second = _mm_loadu_ps(from + 4);
    _mm_storeu_ps(even, _mm_shuffle_ps(first, second, 0x88));
    _mm_storeu_ps(odd, _mm_shuffle_ps(first, second, 0xdd));
  }

  // to[column · to_step + row] = from[row · from_step + column], four of each.
  static KSMM_INLINE void transpose_four(const float* from, int64_t from_step, float* to, int64_t to_step) {
    __m128 rows[4];
    KSMM_UNROLL
    for (int row = 0; row < 4; ++row) rows[row] = _mm_loadu_ps(from + row * from_step);
    _MM_TRANSPOSE4_PS(rows[0], rows[1], rows[2], rows[3]);
    KSMM_UNROLL
    for (int row = 0; row < 4; ++row) _mm_storeu_ps(to + row * to_step, rows[row]);
  }
#endif

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
