// batch_first: the copy of X that a stage is read from, made a few vectors at a time.
#pragma once

#include "batch_first_plan.h"
#include "stages.h"

namespace ksmm {
namespace KSMM_VARIANT {

template <class Element, class Spread, int N>
class FirstCopy : public Portions {
 public:
  using Stored = typename Element::Stored;
  using Format = RowFormat<Spread>;
  static constexpr int M = tile_rows(N);
  // The margin keeps rows out of each other's cache sets, and takes what a vector reads or writes past a row's end.
  static constexpr int row_step = Format::most_floats + lanes;

  FirstCopy() = default;
  FirstCopy(const FirstPlan& plan, const Operands& operands, const FirstStage& stage, float* rows)
      : plan_(&plan), x_stride_(operands.x_stride), stage_(stage), rows_(rows), to_(rows) {
    const int64_t d = plan.problem.d;
    from_ = static_cast<const Stored*>(operands.x) + stage.n * x_stride_ +
            (stage.i * plan.problem.c + stage.k * Element::word_k) * d;
    first_ = from_;
    if (Element::word_k > 1) return;
    if (!Format::slices(d)) {
      step_ = lanes, vectors_ = stage.depth * d / lanes / together * together;
    } else if (d < lanes && turns) {
      step_ = d, vectors_ = smaller(stage.depth, larger(0, whole_vectors()));
      for (int lane = 0; lane < lanes; ++lane) order_[lane] = int32_t((first_j() + lane) % d);
    } else if (first_j() + lanes <= d) {
      step_ = d, vectors_ = stage.depth, from_ += first_j();
    }
    left_ = vectors_ / together * stage.count;
  }

  // Spreads the copying over the multiplication of a stage.
  void spread_over(const FirstStage& stage) {
    Portions::spread_over(divide_up(stage.count, M) * (stage.last_panel - stage.first_panel), stage.depth, M);
  }

  KSMM_INLINE void operator()() {
    for (int64_t count = take(); count > 0; --count) copy_vectors();
  }

  void finish() {
    for (; left_ > 0; --left_) copy_vectors();
    if (!plan_) return;
    const Interleave<Element> interleave(smaller(plan_->problem.d, lanes));
    for (int64_t m = 0; m < stage_.count; ++m) finish_row(first_ + m * x_stride_, rows_ + m * row_step, interleave);
    const int64_t rest = stage_.count % M;
    if (rest) {
      std::memset(rows_ + stage_.count * row_step, 0, (compiled_rows<N>(rest) - rest) * row_step * sizeof(float));
    }
  }

 private:
  // Vectors that are copied at once: where rows stay as they are in X, those of a cache line.
  static constexpr bool stays = std::is_same<Spread, Repeat<1>>::value || std::is_same<Spread, Repeat<2>>::value ||
                                std::is_same<Spread, Repeat<4>>::value;
  static constexpr int together = stays && lanes < 16 ? 64 / int(lanes * sizeof(Stored)) : 1;
  // Whether a slice of less than a vector's numbers of X, d < L, is made of these on its way.
  static constexpr bool turns = lanes == 8 && std::is_same<Spread, Consecutive>::value;

  int64_t first_j() const { return plan_->group_of(stage_.set, 0) * lanes % plan_->problem.d; }
  // How many k are left that a vector may be read from, d < L: X ends with the last row, which rows of a few numbers,
  // or all of them where they are one and the same (a stride of zero), reach from before it.
  int64_t whole_vectors() const {
    const Problem& p = plan_->problem;
    const int64_t behind = (p.a - stage_.i - 1) * p.c * p.d + (p.batch - stage_.n - stage_.count) * x_stride_;
    return p.c - stage_.k - divide_up(larger(0, lanes - p.d - behind), p.d);
  }

  KSMM_INLINE void copy_vectors() {
    prefetch(from_, vector_ * step_ + x_stride_);
    KSMM_UNROLL
    for (int v = 0; v < together; ++v) {
      if constexpr (Element::word_k == 1) {
        Vector vector = Element::load(from_ + (vector_ + v) * step_);
        if (turns && plan_->problem.d < lanes) vector = permute(vector, order_);
        store(to_ + (vector_ + v) * lanes, vector);
      }
    }
    vector_ += together;
    if (vector_ == vectors_) vector_ = 0, from_ += x_stride_, to_ += row_step;
  }

  // What whole vectors leave of a row.
  void finish_row(const Stored* from, float* to, const Interleave<Element>& interleave) const {
    const Problem& p = plan_->problem;
    const int64_t first_k = stage_.k * Element::word_k, feature = (stage_.i * p.c + first_k) * p.d;
    if (!Format::slices(p.d)) {
      const int64_t done = vectors_ * lanes;
      if constexpr (Element::word_k == 1) {
        if (done < stage_.depth * p.d) convert<Element>(from + done, stage_.depth * p.d - done, to + done, x_stride_);
      } else {
        interleave(from, (p.c - first_k) * p.d, stage_.depth, to, x_stride_);
      }
    } else if (turns && p.d < lanes) {
      for (int64_t k = vectors_; k < stage_.depth; ++k)
        for (int lane = 0; lane < lanes; ++lane) to[k * lanes + lane] = read<Element>(from + k * p.d + order_[lane]);
    } else if (vectors_ == 0) {
      copy_slices(from, p.c - first_k, stage_.depth, p.a * p.c * p.d - feature, first_j(), to);
    }
  }

  // For each word of k the elements j, j + 1, …, wrapped around at d, of a row that ends after `rest` elements. For d <
  // L what follows the d elements is not used.
  void copy_slices(const Stored* from, int64_t left_k, int64_t depth, int64_t rest, int64_t j, float* to) const {
    constexpr int word_k = Element::word_k;
    const int64_t d = plan_->problem.d;
    for (int64_t k = 0; k < depth; ++k, from += word_k * d, rest -= word_k * d, left_k -= word_k, to += lanes) {
      const Stored* next = word_k == 2 && left_k > 1 ? from + d : nullptr;  // of the second k of a word
      const Stored* next_j = next ? next + j : nullptr;
      const int64_t last_rest = next ? rest - d : rest;  // after that one
      prefetch(from, j + x_stride_);
      if (j + lanes <= last_rest) {
        store(to, load_words<Element>(from + j, next_j));
      } else {
        store(to, load_some_words<Element>(from + j, next_j, smaller(lanes, last_rest - j)));
      }
      // Writes past the lanes of this k; the next k overwrites that.
      if (d >= lanes && j + lanes > d) store(to + d - j, load_words<Element>(from, next));
    }
  }

  const FirstPlan* plan_ = nullptr;
  int64_t x_stride_ = 0;
  FirstStage stage_{};
  float* rows_ = nullptr;
  float* to_ = nullptr;
  const Stored *first_ = nullptr, *from_ = nullptr;
  int64_t step_ = 0, vectors_ = 0, vector_ = 0;
  Indices order_{};  // of a slice
};

}  // namespace KSMM_VARIANT
}  // namespace ksmm
