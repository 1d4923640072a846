// batch_last: the copy of X that a stage is read from.
//
// The block of the next stage is copied while a stage is multiplied, a few vectors at a time, in the order in which it
// lies in memory: narrower pieces of its rows would each cost a page of the address translation.
#pragma once

#include "batch_last_plan.h"
#include "stages.h"

namespace ksmm {
namespace KSMM_VARIANT {

// Copies X[i, k, j, n] to inputs[panel][k][v][lane], zeros past the batch: a row of a panel at a time, along the rows
// of X, whose next ones are asked for meanwhile. What is not whole is left to finish().
template <class Element, int N>
class LastCopy : public Portions {
 public:
  using Stored = typename Element::Stored;

  LastCopy() = default;
  LastCopy(const Problem& p, const Operands& operands, const LastStage& stage, float* inputs)
      : to_(inputs), depth_(stage.depth), step_(p.d * operands.x_stride) {
    const int64_t i = stage.ij / p.d, j = stage.ij % p.d, n = stage.first_panel * N * lanes;
    const int64_t first_k = stage.k * Element::word_k;
    from_ = static_cast<const Stored*>(operands.x) + ((i * p.c + first_k) * p.d + j) * operands.x_stride + n;
    count_ = smaller((stage.last_panel - stage.first_panel) * N * lanes, p.batch - n);
    last_k_ = smaller(p.c - first_k, depth_ * Element::word_k);
    panels_ = count_ / (N * lanes);
    left_ = panels_ * (last_k_ / Element::word_k);
  }

  // Spreads the copying over the multiplication of a stage.
  void spread_over(const LastStage& stage) {
    Portions::spread_over((stage.last_row - stage.first_row) * (stage.last_panel - stage.first_panel), stage.depth,
                          tile_rows(N));
  }

  KSMM_INLINE void operator()() {
    for (int64_t count = take(); count > 0; --count) copy_row();
  }

  void finish() {
    for (; left_ > 0; --left_) copy_row();
    for (int64_t row = row_; row < depth_; ++row) convert_row(row, 0);
    if (panels_ * N * lanes == count_) return;
    for (int64_t row = 0; row < row_; ++row) convert_row(row, panels_);
  }

 private:
  static constexpr int64_t lead = 2;                             // rows that are asked for before they are read
  static constexpr int line = 64 / int(lanes * sizeof(Stored));  // vectors in a cache line

  float* target(int64_t row, int64_t panel) const { return to_ + (panel * depth_ + row) * N * lanes; }

  KSMM_INLINE void copy_row() {
    const Stored* first = from_ + row_ * Element::word_k * step_ + panel_ * N * lanes;
    float* to = target(row_, panel_);
    if ((row_ + lead + 1) * Element::word_k <= last_k_) {
      KSMM_UNROLL
      for (int k = 0; k < Element::word_k; ++k) {
        KSMM_UNROLL
        for (int v = 0; v < N; v += line) prefetch(first, (lead * Element::word_k + k) * step_ + v * lanes);
      }
    }
    KSMM_UNROLL
    for (int v = 0; v < N; ++v) {
      store(to + v * lanes, load_words<Element>(first + v * lanes, first + step_ + v * lanes));
    }
    if (++panel_ == panels_) panel_ = 0, ++row_;
  }

  // The panels of a row from one on.
  void convert_row(int64_t row, int64_t panel) const {
    const Stored* first = from_ + row * Element::word_k * step_;
    const Stored* second = row * Element::word_k + 1 < last_k_ ? first + step_ : nullptr;
    for (int64_t n = panel * N * lanes; n < count_; n += N * lanes, ++panel) {
      float* to = target(row, panel);
      const int64_t count = smaller(N * lanes, count_ - n);
      if (count < N * lanes) std::memset(to, 0, N * lanes * sizeof(float));
      convert_words<Element>(first + n, second ? second + n : nullptr, count, to, lead * Element::word_k * step_);
    }
  }

  const Stored* from_ = nullptr;
  float* to_ = nullptr;
  int64_t depth_ = 0, step_ = 0, count_ = 0, last_k_ = 0;
  int64_t panels_ = 0, row_ = 0, panel_ = 0;  // whole panels, and where the next row of one is
};

}  // namespace KSMM_VARIANT
}  // namespace ksmm
