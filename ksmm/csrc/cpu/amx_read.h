// X on its way into tiles, a piece at a time: while one block is multiplied, the next is read.
//
// Pieces are small (up to about a hundred instructions): with more than that between two products of tiles the
// processor does not see the next one in time.
#pragma once

#include "amx_plan.h"

namespace ksmm {
namespace KSMM_VARIANT {

// words[j][n tile][k tile][plane] of a block of X: 16 pairs of k × 16 n, zeros past c and the batch.
//
// For each n tile and k tile there are pieces that transpose squares of 16 n × 16 neighbouring features (in
// batch_first) and then pieces that split what lies there, or in batch_last the rows of X, into planes.
template <class Element>
class AmxReader {
 public:
  using Stored = typename Element::Stored;
  static constexpr int planes = Planes<Element>::count;

  AmxReader() = default;
  // rest: tile_k · j_block + 32 vectors.
  AmxReader(const AmxPlan& plan, const Operands& operands, const AmxBlock& block, uint32_t* words, float* rest)
      : block_(block), c_(plan.problem.c), d_(plan.problem.d), stride_(operands.x_stride), x_words_(plan.x_words()) {
    const Stored* x = static_cast<const Stored*>(operands.x);
    first_ = plan.is_first();
    whole_ = block.count_j == d_;
    x_ = first_ ? x + block.n * stride_ + (block.i * c_) * d_ + block.j
                : x + (block.i * c_ * d_ + block.j) * stride_ + block.n;
    words_ = words, lines_ = rest, features_ = rest + 256;
    tiles_ = plan.depth_tiles, columns_ = block.columns();
    const int64_t squares = whole_ ? 2 * block.count_j : tile_k * divide_up(block.count_j, 16);
    left_ = tiles_ * (first_ ? columns_ * 4 * (squares + block.count_j) : 16 * divide_up(columns_, columns_at_once));
    start_tile();
  }

  // An upper bound.
  int64_t left() const { return left_; }

  // The next piece, if there is one.
  KSMM_INLINE void operator()() {
    if (left_ <= 0) return;
    --left_;
    if (!first_) return split_last();
    if (runs_ == 0) return split_first();
    transpose_some();
  }

  void finish() {
    while (left_ > 0) (*this)();
  }

 private:
  static constexpr int pairs_at_once = 4, columns_at_once = 4;

  void start_tile() {
    depth_ = smaller(tile_k, c_ - tile_ * tile_k);
    run_ = whole_ ? depth_ * block_.count_j : block_.count_j;
    runs_ = whole_ ? 1 : depth_;
    from_ = x_ + (first_ ? column_ * 16 * stride_ + tile_ * tile_k * d_ : tile_ * tile_k * d_ * stride_);
    rows_ = smaller(16, block_.count_n - column_ * 16);
    to_features_ = features_;
    to_ = words_;
    done_ = j_ = pair_ = step_ = 0;
  }

  void next_tile() {
    words_ += planes * tile_words;
    if (++tile_ == tiles_) {
      tile_ = 0;
      if (++column_ == columns_) return void(left_ = 0);
    }
    start_tile();
  }

  // A quarter of a square: from rows of X by n to features_[k][j][16 n].
  KSMM_INLINE void transpose_some() {
    const int64_t count = smaller(16, run_ - done_);
    if (step_ < 2) {
      KSMM_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int64_t row = 8 * step_ + 4 * half;
        Vector rows[4];
        KSMM_UNROLL
        for (int m = 0; m < 4; ++m) rows[m] = load_row(row + m, count);
        transpose_first(rows[0], rows[1], rows[2], rows[3], lines_ + row * 16);
      }
    } else {
      KSMM_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int64_t e = 2 * (step_ - 2) + half;
        Vector columns[4];
        transpose_second(lines_, e, columns);
        KSMM_UNROLL
        for (int quarter = 0; quarter < 4; ++quarter) store(to_features_ + (4 * quarter + e) * 16, columns[quarter]);
      }
    }
    if (++step_ < 4) return;
    step_ = 0, done_ += 16, to_features_ += 16 * count;
    if (done_ >= run_) done_ = 0, --runs_, from_ += d_;
  }

  KSMM_INLINE Vector load_row(int64_t row, int64_t count) const {
    const Stored* line = from_ + row * stride_ + done_;
    if (rows_ == 16 && count == 16) {
      prefetch(line, 16 * stride_);
      return Element::load(line);
    }
    return row < rows_ ? load_some<Element>(line, count) : Vector{};
  }

  KSMM_INLINE void split_first() {
    const int64_t step = block_.count_j * 16;
    const float* from = features_ + 2 * pair_ * step + j_ * 16;
    uint32_t* to = to_ + pair_ * 16;
    if (2 * (pair_ + pairs_at_once) <= depth_) {
      KSMM_UNROLL
      for (int pair = 0; pair < pairs_at_once; ++pair, from += 2 * step) {
        split_pairs<planes>(load(from), load(from + step), to + pair * 16);
      }
    } else {
      for (int64_t pair = 0; pair < pairs_at_once; ++pair, from += 2 * step) {
        const int64_t k = 2 * (pair_ + pair);
        split_pairs<planes>(k < depth_ ? load(from) : Vector{}, k + 1 < depth_ ? load(from + step) : Vector{},
                            to + pair * 16);
      }
    }
    pair_ += pairs_at_once;
    if (pair_ < 16) return;
    pair_ = 0, to_ += x_words_;
    if (++j_ == block_.count_j) next_tile();
  }

  // Along the rows of X: a pair of k, some n tiles at a time.
  KSMM_INLINE void split_last() {
    const int64_t step = d_ * stride_, count = block_.count_n - column_ * 16;
    const Stored* from = from_ + column_ * 16;
    uint32_t* to = words_ + (column_ * tiles_ * planes) * tile_words + pair_ * 16;
    const int64_t to_step = tiles_ * planes * tile_words;
    if (count >= 16 * columns_at_once && 2 * pair_ + 2 <= depth_) {
      KSMM_UNROLL
      for (int column = 0; column < columns_at_once; ++column, from += 16, to += to_step) {
        prefetch(from, 4 * step);
        prefetch(from, 5 * step);
        split_pairs<planes>(Element::load(from), Element::load(from + step), to);
      }
    } else {
      for (int64_t column = 0; column < columns_at_once && column * 16 < count; ++column, from += 16, to += to_step) {
        Vector both[2] = {};
        for (int one = 0; one < 2; ++one) {
          if (2 * pair_ + one >= depth_) continue;
          both[one] = load_some<Element>(from + one * step, smaller(16, count - column * 16));
        }
        split_pairs<planes>(both[0], both[1], to);
      }
    }
    column_ += columns_at_once;
    if (column_ < columns_) return;
    column_ = 0, from_ += 2 * step;
    if (++pair_ == 16) next_tile_last();
  }

  void next_tile_last() {
    words_ += planes * tile_words;
    if (++tile_ == tiles_) return void(left_ = 0);
    start_tile();
  }

  AmxBlock block_{};
  int64_t c_ = 0, d_ = 0, stride_ = 0, x_words_ = 0;
  bool first_ = false, whole_ = false;
  const Stored* x_ = nullptr;
  uint32_t* words_ = nullptr;  // of this n tile and k tile, and the first j
  float *lines_ = nullptr, *features_ = nullptr;
  int64_t tiles_ = 0, columns_ = 0, left_ = 0;
  int64_t column_ = 0, tile_ = 0;
  int64_t depth_ = 0, rows_ = 0;           // k and n of them
  int64_t run_ = 0, runs_ = 0, done_ = 0;  // neighbouring features, how many such runs are left, where in one
  const Stored* from_ = nullptr;
  float* to_features_ = nullptr;
  uint32_t* to_ = nullptr;
  int64_t j_ = 0, pair_ = 0, step_ = 0;
};

}  // namespace KSMM_VARIANT
}  // namespace ksmm
