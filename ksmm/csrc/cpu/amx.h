// The product by tiles (AMX): Y[n, i, r, j] = sum over k of X[n, i, k, j] W[i, r, k, j], for each (i, j) an ordinary
// product of matrices whose lanes are consecutive n in both layouts.
//
//   weights   packed once a call as tiles of 16 r × 32 k, a tile for each plane (amx_planes.h);
//   a task    splits its block of X into planes, as tiles of 16 pairs of k × 16 n (in batch_first it transposes squares
//             of 16 numbers on the way), multiplies them for all r, and writes the sums (transposed back).
#pragma once

#include <utility>

#include "amx_least.h"
#include "amx_read.h"
#include "amx_tiles.h"
#include "amx_write.h"
#include "bias.h"

namespace ksmm {
namespace KSMM_VARIANT {

// X of so many tiles of k and 32 n, planes and all, stays in the first-level cache while all r use it. The sums of each
// such stage begin with zero, and are added to those before: they err less than one long sum.
constexpr int64_t stage_tiles = 4;

// What is done while tiles are multiplied: the block before is written and the next one read, evenly over all calls.
template <class Element>
class AmxMeanwhile {
 public:
  AmxReader<Element> reader;
  AmxWriter<Element> writer;
  Doubt doubt;

  void spread_over(int64_t calls) {
    calls_ = calls, pieces_ = reader.left() + writer.left();
    credit_ = 0;
  }
  KSMM_INLINE void operator()() {
    for (credit_ += pieces_; credit_ >= calls_; credit_ -= calls_) piece();
  }
  void finish() {
    reader.finish();
    writer.finish(doubt);
  }

 private:
  // Not inlined: the loops over tiles would be too long for the cache of decoded instructions.
  __attribute__((noinline)) void piece() {
    if (writer.left() > 0 && (reader.left() <= 0 || (turn_ ^= 1))) {
      writer(doubt);
    } else {
      reader();
    }
  }

  int64_t calls_ = 1, pieces_ = 0, credit_ = 0;
  int turn_ = 0;
};

// By any thread, of its sums: see Doubt.
struct Findings {
  bool doubt = false, zero = false;
};

template <class Element>
class AmxTasks {
 public:
  static constexpr int planes = Planes<Element>::count;

  AmxTasks(const AmxPlan& plan, const Operands& operands, const uint32_t* weights, const float* bias,
           Findings* findings)
      : plan_(plan), operands_(operands), weights_(weights), bias_(bias), findings_(findings) {}

  void work(Tasks& tasks) const {
    const TileSession session;
    const int64_t x_words = plan_.j_block * plan_.x_words(), sums_floats = plan_.j_block * plan_.sums_floats();
    const int64_t features = (plan_.j_block + 1) * tile_k * 16, copies = plan_.overlaps ? 2 : 1;
    const Buffer buffer(copies * (x_words + sums_floats) + features + 256 + 4 * tile_words);
    uint32_t* x = reinterpret_cast<uint32_t*>(buffer.get());
    uint32_t* next_x = x + (copies - 1) * x_words;
    float* sums = buffer.get() + copies * x_words;
    float* last_sums = sums + (copies - 1) * sums_floats;
    float* const rest = last_sums + sums_floats;
    float* const lines = rest + features;
    float* const partial = lines + 256;  // 32 × 32
    AmxMeanwhile<Element> meanwhile;
    int64_t task = 0, last = 0;
    const auto next = [&](AmxBlock& block) {
      if (++task >= last && !tasks.take(task, last)) return false;
      block = AmxBlock(plan_, task);
      return true;
    };
    AmxBlock block{}, next_block{};
    if (!next(block)) return;
    for (bool more = true, is_read = false; more; block = next_block) {
      if (!is_read) AmxReader<Element>(plan_, operands_, block, x, rest).finish();
      more = next(next_block);
      is_read = more && plan_.overlaps;
      if (is_read) meanwhile.reader = AmxReader<Element>(plan_, operands_, next_block, next_x, rest);
      multiply(block, x, sums, partial, meanwhile);
      meanwhile.finish();
      meanwhile.writer = AmxWriter<Element>(plan_, operands_, bias_, block, sums, lines);
      if (!plan_.overlaps) meanwhile.finish();
      std::swap(x, next_x);
      std::swap(sums, last_sums);
    }
    meanwhile.finish();
    if (planes == 1) return;
    if (meanwhile.doubt.is_there()) __atomic_store_n(&findings_->doubt, true, __ATOMIC_RELAXED);
    if (meanwhile.doubt.has_zero()) __atomic_store_n(&findings_->zero, true, __ATOMIC_RELAXED);
  }

 private:
  // sums[j][r][n]
  void multiply(const AmxBlock& block, const uint32_t* x, float* sums, float* partial,
                AmxMeanwhile<Element>& meanwhile) const {
    const int64_t pairs = divide_up(block.columns(), 2);
    meanwhile.spread_over(block.count_j * pairs * divide_up(plan_.row_tiles, 2) * plan_.depth_tiles *
                          Planes<Element>::products);
    for (int64_t j = 0; j < block.count_j; ++j, x += plan_.x_words(), sums += plan_.sums_floats()) {
      const uint32_t* weights =
          weights_ + (block.i * plan_.problem.d + block.j + j) * plan_.row_tiles * plan_.row_words();
      for (int64_t tile = 0; tile < plan_.depth_tiles; tile += stage_tiles) {
        for (int64_t column = 0; column < block.columns(); column += 2) {
          for (int64_t row = 0; row < plan_.row_tiles; row += 2) {
            const int64_t offset = tile * planes * tile_words;
            multiply_some(smaller(2, plan_.row_tiles - row), smaller(2, block.columns() - column),
                          weights + row * plan_.row_words() + offset, x + column * plan_.row_words() + offset,
                          smaller(stage_tiles, plan_.depth_tiles - tile), tile == 0,
                          sums + row * 16 * plan_.batch_block + column * 16, partial, meanwhile);
          }
        }
      }
    }
  }

  void multiply_some(int64_t rows, int64_t columns, const uint32_t* weights, const uint32_t* x, int64_t depth,
                     bool is_first, float* sums, float* partial, AmxMeanwhile<Element>& meanwhile) const {
    const int64_t words = plan_.row_words(), step = is_first ? plan_.batch_block : 32;
    float* const to = is_first ? sums : partial;
    if (rows == 2) {
      columns == 2 ? multiply_tiles<Element, 2, 2>(weights, x, words, depth, to, step, meanwhile)
                   : multiply_tiles<Element, 2, 1>(weights, x, words, depth, to, step, meanwhile);
    } else {
      columns == 2 ? multiply_tiles<Element, 1, 2>(weights, x, words, depth, to, step, meanwhile)
                   : multiply_tiles<Element, 1, 1>(weights, x, words, depth, to, step, meanwhile);
    }
    if (is_first) return;
    for (int64_t row = 0; row < rows * 16; ++row, sums += plan_.batch_block, partial += 32) {
      for (int64_t column = 0; column < columns * 16; column += 16) {
        store(sums + column, load(sums + column) + load(partial + column));
      }
    }
  }

  const AmxPlan& plan_;
  const Operands& operands_;
  const uint32_t* weights_;
  const float* bias_;
  Findings* findings_;
};

// False where the result cannot be vouched for; it is to be computed by another variant then.
template <class Element>
bool multiply_by_tiles(const Problem& problem, const Operands& operands, ParallelFor parallel_for) {
  const AmxPlan plan(problem, Planes<Element>::count);
  const Buffer weights(problem.a * problem.d * plan.row_tiles * plan.row_words());
  uint32_t* const packed = reinterpret_cast<uint32_t*>(weights.get());
  bool badly_scaled = false;
  run(AmxWeights<Element>{plan, operands, packed, &badly_scaled}, problem.a * plan.row_tiles, parallel_for);
  if (badly_scaled) return false;
  const Bias<Element> bias(problem, operands, 16);
  Findings findings;
  run(AmxTasks<Element>(plan, operands, packed, bias.get(), &findings), plan.tasks(), parallel_for, plan.batch_blocks);
  return !findings.doubt && !(findings.zero && may_vanish<Element>(problem, operands, parallel_for));
}

}  // namespace KSMM_VARIANT
}  // namespace ksmm
