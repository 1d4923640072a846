// Sums on their way into Y, a piece at a time: while one block is multiplied, the one before is written.
#pragma once

#include "amx_plan.h"

namespace ksmm {
namespace KSMM_VARIANT {

// From sums[j][r][n] of a block; in batch_first squares of 16 neighbouring outputs × 16 n are transposed.
template <class Element>
class AmxWriter {
 public:
  using Stored = typename Element::Stored;
  static constexpr int planes = Planes<Element>::count;

  AmxWriter() = default;
  // lines: 16 vectors.
  AmxWriter(const AmxPlan& plan, const Operands& operands, const float* bias, const AmxBlock& block, const float* sums,
            float* lines)
      : block_(block), d_(plan.problem.d), outputs_(plan.problem.b * plan.problem.d), lines_(lines), sums_(sums) {
    const Problem& p = plan.problem;
    first_ = plan.is_first();
    j_step_ = plan.sums_floats(), row_step_ = plan.batch_block, columns_ = block.columns();
    const bool whole = block.count_j == d_;
    run_ = whole ? outputs_ : block.count_j;
    runs_ = first_ && whole ? 1 : p.b;
    bias_ = bias ? bias + block.i * outputs_ + block.j : nullptr;
    Stored* y = static_cast<Stored*>(operands.y);
    if (first_) {
      step_of_y_ = p.a * outputs_;
      y_ = y + block.n * step_of_y_ + block.i * outputs_ + block.j;
      left_ = columns_ * runs_ * divide_up(run_, 16) * 4;
    } else {
      step_of_y_ = d_ * p.batch;
      y_ = y + (block.i * outputs_ + block.j) * p.batch + block.n;
      left_ = p.b;
    }
  }

  int64_t left() const { return left_; }

  // The next piece, if there is one.
  KSMM_INLINE void operator()(Doubt& doubt) {
    if (left_ <= 0) return;
    --left_;
    first_ ? write_some(doubt) : write_row(doubt);
  }

  void finish(Doubt& doubt) {
    while (left_ > 0) (*this)(doubt);
  }

 private:
  // A quarter of a square.
  KSMM_INLINE void write_some(Doubt& doubt) {
    const int64_t count = smaller(16, run_ - done_), output = run_index_ * d_ + done_;
    if (step_ < 2) {
      KSMM_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int64_t first = 8 * step_ + 4 * half;
        Vector sums[4];
        KSMM_UNROLL
        for (int e = 0; e < 4; ++e) {
          sums[e] = first + e < count ? next_sum(doubt) : Vector{};
          if (bias_ && first + e < count) sums[e] += broadcast(bias_[output + first + e]);
        }
        transpose_first(sums[0], sums[1], sums[2], sums[3], lines_ + first * 16);
      }
    } else {
      const int64_t rows = smaller(16, block_.count_n - column_ * 16);
      KSMM_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int64_t e = 2 * (step_ - 2) + half;
        Vector of_n[4];
        transpose_second(lines_, e, of_n);
        KSMM_UNROLL
        for (int quarter = 0; quarter < 4; ++quarter) {
          const int64_t m = 4 * quarter + e;
          Stored* to = y_ + (column_ * 16 + m) * step_of_y_ + output;
          if (rows == 16 && count == 16) {
            __builtin_prefetch(to + 16 * step_of_y_, 1, 2);
            Element::store(to, of_n[quarter]);
          } else if (m < rows) {
            store_some<Element>(to, of_n[quarter], count);
          }
        }
      }
    }
    if (++step_ == 4) next_square();
  }

  KSMM_INLINE Vector next_sum(Doubt& doubt) {
    const Vector sum = load(sums_ + j_ * j_step_ + row_ * row_step_ + column_ * 16);
    if (++j_ == block_.count_j) j_ = 0, ++row_;
    if (planes > 1) doubt.look_at(only_the(block_.count_n - column_ * 16, sum));
    return sum;
  }

  // Ones in the place of sums that are past the batch.
  static KSMM_INLINE Vector only_the(int64_t count, Vector sums) {
    if (count >= 16) return sums;
    return (Vector)_mm512_mask_mov_ps(_mm512_set1_ps(1.0f), __mmask16((1 << count) - 1), (__m512)sums);
  }

  KSMM_INLINE void next_square() {
    step_ = 0, done_ += 16;
    if (done_ < run_) return;
    done_ = 0;
    if (++run_index_ < runs_) return;
    run_index_ = row_ = 0, ++column_;
  }

  KSMM_INLINE void write_row(Doubt& doubt) {
    const Vector bias = bias_ ? broadcast(bias_[row_ * d_]) : Vector{};
    const float* sums = sums_ + row_ * row_step_;
    Stored* to = y_ + row_ * step_of_y_;
    for (int64_t n = 0; n < block_.count_n; n += 16) {
      __builtin_prefetch(to + 4 * step_of_y_ + n, 1, 2);
      Vector sum = load(sums + n);
      if (planes > 1) doubt.look_at(only_the(block_.count_n - n, sum));
      if (bias_) sum += bias;
      if (block_.count_n - n >= 16) {
        Element::store(to + n, sum);
      } else {
        store_some<Element>(to + n, sum, block_.count_n - n);
      }
    }
    ++row_;
  }

  AmxBlock block_{};
  int64_t d_ = 0, outputs_ = 0;
  bool first_ = false;
  Stored* y_ = nullptr;
  float* lines_ = nullptr;
  const float *bias_ = nullptr, *sums_ = nullptr;
  int64_t j_step_ = 0, row_step_ = 0, step_of_y_ = 0;
  int64_t columns_ = 0, run_ = 0, runs_ = 0;  // run_ neighbouring outputs, runs_ times
  int64_t left_ = 0, column_ = 0, run_index_ = 0, done_ = 0, step_ = 0;
  int64_t row_ = 0, j_ = 0;  // of the next sum
};

}  // namespace KSMM_VARIANT
}  // namespace ksmm
