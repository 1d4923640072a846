// batch_last: Y[i, r, j, n] = sum over k of W[i, r, k, j] X[i, k, j, n]; lanes are consecutive n.
//
// For each (i, j) this is an ordinary matrix product whose operands have leading dimensions: nothing is permuted.
//   weights   packed once a call, by (i, j), M rows r at a time, k-major, so that a tile reads them in order;
//   a task    is one (i, j), a block of n and a block of r. It copies its block of X, some k at a time, into a tile
//             (rows of X lie d·B apart: as they are, they would fall into the same few cache sets) and multiplies.
// A panel of X (N vectors wide) stays in the first-level cache while all r use it; the weights of the block of r stay
// in the second.
#pragma once

#include <utility>

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

// What is multiplied at a time: some k of a panel of X and a block of rows of the weights.
struct LastStage {
  int64_t ij, first_row, last_row, first_panel, last_panel, panel, k, depth;

  int64_t tiles() const { return last_row - first_row; }
};

// The stages of the tasks that a thread takes, one after the other.
class LastStages {
 public:
  LastStages(const LastPlan& plan, Tasks& tasks) : plan_(plan), tasks_(tasks) {}

  // False when none is left.
  bool next(LastStage& stage) {
    if (++stage_.panel >= stage_.last_panel) {
      stage_.panel = stage_.first_panel, stage_.k += stage_.depth;
      if (stage_.k >= plan_.steps && !next_task()) return false;
      stage_.depth = smaller(plan_.depth, plan_.steps - stage_.k);
    }
    stage = stage_;
    return true;
  }

 private:
  bool next_task() {
    if (++task_ >= last_task_ && !tasks_.take(task_, last_task_)) return false;
    const int64_t batch_block = task_ / plan_.row_blocks % plan_.batch_blocks;
    stage_.ij = task_ / plan_.row_blocks / plan_.batch_blocks;
    stage_.first_row = task_ % plan_.row_blocks * plan_.row_block;
    stage_.last_row = smaller(stage_.first_row + plan_.row_block, plan_.row_panels);
    stage_.panel = stage_.first_panel = batch_block * plan_.batch_block;
    stage_.last_panel = smaller(stage_.first_panel + plan_.batch_block, plan_.batch_panels);
    stage_.k = 0;
    return true;
  }

  const LastPlan& plan_;
  Tasks& tasks_;
  LastStage stage_{0, 0, 0, 0, 0, 0, plan_.steps, 0};
  int64_t task_ = 0, last_task_ = 0;
};

// Copies X[i, k, j, n] to inputs[k][v][lane], zeros past the batch, some rows at a time, each some time after it was
// asked for.
template <class Element, int N>
class LastCopy {
 public:
  using Stored = typename Element::Stored;
  static constexpr int64_t lead = 8;

  LastCopy() = default;
  LastCopy(const Problem& p, const Operands& operands, const LastStage& stage, float* inputs)
      : to_(inputs), depth_(stage.depth), step_(p.d * operands.x_stride) {
    const int64_t i = stage.ij / p.d, j = stage.ij % p.d, n = stage.panel * N * lanes;
    const int64_t first_k = stage.k * Element::word_k;
    from_ = static_cast<const Stored*>(operands.x) + ((i * p.c + first_k) * p.d + j) * operands.x_stride + n;
    count_ = smaller(N * lanes, p.batch - n);
    last_k_ = smaller(p.c - first_k, depth_ * Element::word_k);
    end_ = count_ == N * lanes ? last_k_ / Element::word_k + lead : 0;
  }

  // Spreads the copying over the multiplication of a stage.
  void spread_over(const LastStage& stage) {
    interval_ = smaller(stage.tiles() * stage.depth / larger(1, end_), stage.depth / tile_rows(N));
    interval_ = larger(4, smaller(16, interval_));
    rows_ = divide_up(end_, stage.tiles() * divide_up(stage.depth, interval_));
  }

  KSMM_INLINE int64_t interval() const { return interval_; }

  KSMM_INLINE void operator()() {
    for (int64_t last = smaller(row_ + rows_, end_); row_ < last; ++row_) {
      if (row_ < end_ - lead) {
        KSMM_UNROLL
        for (int k = 0; k < Element::word_k; ++k) {
          KSMM_UNROLL
          for (int v = 0; v < N; v += line) prefetch(from_, (row_ * Element::word_k + k) * step_ + v * lanes);
        }
      }
      if (row_ >= lead) copy_row(row_ - lead);
    }
  }

  void finish() {
    int64_t row = larger(0, row_ - lead);
    for (; row < end_ - lead; ++row) copy_row(row);
    for (; row < depth_; ++row) {
      const Stored* first = from_ + row * Element::word_k * step_;
      const Stored* second = row * Element::word_k + 1 < last_k_ ? first + step_ : nullptr;
      float* to = to_ + row * N * lanes;
      if (count_ < N * lanes) std::memset(to, 0, N * lanes * sizeof(float));
      convert_words<Element>(first, second, count_, to, 2 * Element::word_k * step_);
    }
  }

 private:
  static constexpr int line = int(sizeof(float) / sizeof(Stored));  // how many vectors are a cache line or less

  KSMM_INLINE void copy_row(int64_t row) {
    const Stored* first = from_ + row * Element::word_k * step_;
    KSMM_UNROLL
    for (int v = 0; v < N; ++v) {
      store(to_ + (row * N + v) * lanes, load_words<Element>(first + v * lanes, first + step_ + v * lanes));
    }
  }

  const Stored* from_ = nullptr;
  float* to_ = nullptr;
  int64_t depth_ = 0, step_ = 0, count_ = 0, last_k_ = 0, row_ = 0, end_ = 0, rows_ = 0, interval_ = 8;
};

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
    const int64_t inputs_floats = plan.depth * N * lanes;
    const int64_t sums = plan.depth < plan.steps ? plan.batch_block * plan.row_block : 1;
    const Buffer buffer(2 * inputs_floats + sums * tile_floats);
    float *inputs = buffer.get(), *next_inputs = inputs + inputs_floats;
    LastStages stages(plan, tasks);
    LastStage stage;
    if (!stages.next(stage)) return;
    Copy(plan.problem, operands, stage, inputs).finish();
    for (bool more = true; more;) {
      LastStage next;
      Copy copy;
      more = stages.next(next);
      if (more) copy = Copy(plan.problem, operands, next, next_inputs);
      copy.spread_over(stage);
      multiply(stage, inputs, buffer.get() + 2 * inputs_floats, copy);
      copy.finish();
      std::swap(inputs, next_inputs);
      stage = next;
    }
  }

  void multiply(const LastStage& stage, const float* inputs, float* sums, Copy& copy) const {
    for (int64_t row = stage.first_row; row < stage.last_row; ++row) {
      const int64_t tile = (stage.panel - stage.first_panel) * plan.row_block + row - stage.first_row;
      multiply_tile_at(stage, row, inputs, plan.depth < plan.steps ? sums + tile * tile_floats : sums, copy);
    }
  }

  void multiply_tile_at(const LastStage& stage, int64_t row, const float* inputs, float* tile, Copy& copy) const {
    const Problem& p = plan.problem;
    const int64_t i = stage.ij / p.d, j = stage.ij % p.d, n = stage.panel * N * lanes, r = row * M;
    const int64_t rows = smaller(M, p.b - r), count = smaller(N * lanes, p.batch - n);
    const bool is_last = stage.k + stage.depth == plan.steps;
    Stored* y = static_cast<Stored*>(operands.y) + ((i * p.b + r) * p.d + j) * p.batch + n;
    TileTarget target{stage.k > 0 ? tile : nullptr, tile, N * lanes, lanes};
    bool direct = false;
    if constexpr (std::is_same<Element, Float32>::value) {
      direct = is_last && count == N * lanes && rows == compiled_rows<N>(rows);
      if (direct) target = {target.start, y, p.d * p.batch, lanes};
    }
    if (bias && is_last) {
      target.bias = bias + (i * p.b + r) * p.d + j;
      target.bias_row_step = p.d;
    }
    const float* from = weights + (stage.ij * plan.row_panels + row) * plan.panel_floats() + stage.k * M;
    multiply_rows<Element, N, 1, Repeat<1>>(rows, stage.depth, Constant<M>{}, Repeat<1>{}, from, inputs, target, copy);
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
