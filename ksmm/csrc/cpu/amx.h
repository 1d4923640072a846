// The product by tiles (AMX): Y[n, i, r, j] = sum over k of X[n, i, k, j] W[i, r, k, j], for each (i, j) an ordinary
// product of matrices whose lanes are consecutive n in both layouts.
//
//   weights   packed once a call as tiles of 16 r × 32 k, a tile for each plane (amx_planes.h);
//   a task    splits its block of X into planes, as tiles of 16 pairs of k × 16 n (in batch_first it transposes squares
//             of 16 numbers on the way), multiplies them for all r, and writes the sums (transposed back).
#pragma once

#include <utility>

#include "amx_read.h"
#include "amx_write.h"
#include "bias.h"

namespace ksmm {
namespace KSMM_VARIANT {

// X of so many tiles of k and 32 n, planes and all, stays in the first-level cache while all r use it. The sums of each
// such stage begin with zero, and are added to those before: they err less than one long sum.
constexpr int64_t stage_tiles = 4;

struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// The shape of this thread's tiles, for as long as it lives.
class TileSession {
 public:
  TileSession() {
    const TileShapes shapes;
    _tile_loadconfig(&shapes);
  }
  ~TileSession() { _tile_release(); }
};

// One product of planes: 16·R rows of weights times 16·N columns of X, over a tile of k. What `loads` says is loaded, the
// rest is there from the product before.
template <int R, int N, bool loads_weights, bool loads_x>
KSMM_INLINE void multiply_planes(const uint32_t* weights, const uint32_t* x, int64_t step) {
  if constexpr (loads_weights) {
    _tile_loadd(4, weights, 64);
    if constexpr (R == 2) _tile_loadd(5, weights + step, 64);
  }
  if constexpr (loads_x) {
    _tile_loadd(6, x, 64);
    if constexpr (N == 2) _tile_loadd(7, x + step, 64);
  }
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (N == 2) _tile_dpbf16ps(1, 4, 7);
  if constexpr (R == 2) _tile_dpbf16ps(2, 5, 6);
  if constexpr (R == 2 && N == 2) _tile_dpbf16ps(3, 5, 7);
}

// Calls function(Constant{}) with first, first + 1, ...
template <int first, int... numbers, class Function>
KSMM_INLINE void for_each_number(std::integer_sequence<int, numbers...>, const Function& function) {
  (function(std::integral_constant<int, first + numbers>{}), ...);
}

// The products `first` to `last` of a tile of k, one after the other.
template <class Element, int R, int N, int first, int last, class Meanwhile>
KSMM_INLINE void multiply_products(const uint32_t* weights, const uint32_t* x, int64_t step, Meanwhile& meanwhile) {
  using P = Planes<Element>;
  const auto multiply = [&](auto number) {
    constexpr int product = decltype(number)::value;
    constexpr PlaneProduct of = P::of[product], before = P::of[product > first ? product - 1 : product];
    constexpr bool is_first = product == first;
    multiply_planes<R, N, is_first || of.weight != before.weight, is_first || of.x != before.x>(
        weights + of.weight * tile_words, x + of.x * tile_words, step);
    meanwhile();
  };
  for_each_number<first>(std::make_integer_sequence<int, last - first + 1>{}, multiply);
}

// sums[16·R][16·N] = the product of R tile rows of weights and N tile columns of X, over so many tiles of k. Those of the
// first planes come last, so that sums are rounded at their full magnitude no more than once a tile. meanwhile() is
// called for each product of planes.
template <class Element, int R, int N, class Meanwhile>
KSMM_INLINE void multiply_tiles(const uint32_t* weights, const uint32_t* x, int64_t step, int64_t depth, float* sums,
                                int64_t sums_step, Meanwhile& meanwhile) {
  constexpr int last = Planes<Element>::products - 1;
  constexpr int64_t tile_step = Planes<Element>::count * tile_words;
  _tile_zero(0);
  if constexpr (N == 2) _tile_zero(1);
  if constexpr (R == 2) _tile_zero(2);
  if constexpr (R == 2 && N == 2) _tile_zero(3);
  if constexpr (last > 0) {
    for (int64_t tile = 0; tile < depth; ++tile) {
      multiply_products<Element, R, N, 0, last - 1>(weights + tile * tile_step, x + tile * tile_step, step, meanwhile);
    }
  }
  for (int64_t tile = 0; tile < depth; ++tile) {
    multiply_products<Element, R, N, last, last>(weights + tile * tile_step, x + tile * tile_step, step, meanwhile);
  }
  const int64_t bytes = sums_step * int64_t(sizeof(float));
  _tile_stored(0, sums, bytes);
  if constexpr (N == 2) _tile_stored(1, sums + 16, bytes);
  if constexpr (R == 2) _tile_stored(2, sums + 16 * sums_step, bytes);
  if constexpr (R == 2 && N == 2) _tile_stored(3, sums + 16 * sums_step + 16, bytes);
}

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

  AmxTasks(const AmxPlan& plan, const Operands& operands, const uint32_t* weights, const float* bias, Findings* findings)
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
    meanwhile.spread_over(block.count_j * pairs * divide_up(plan_.row_tiles, 2) * plan_.depth_tiles * Planes<Element>::products);
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

// The least magnitude of a matrix but zero, as float32.
template <class Element>
struct Least {
  using Stored = typename Element::Stored;
  const Stored* from;
  int64_t columns, row_step, column_step;
  uint32_t* found;  // starts as all ones

  void work(Tasks& tasks) const {
    uint32_t least = ~0u;
    for (int64_t first, last; tasks.take(first, last);) {
      for (int64_t row = first; row < last; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
          const float value = read<Element>(from + row * row_step + column * column_step);
          uint32_t bits;
          std::memcpy(&bits, &value, sizeof(bits));
          const uint32_t magnitude = bits & 0x7fffffff;
          if (magnitude != 0 && magnitude < least) least = magnitude;
        }
      }
    }
    for (uint32_t now = __atomic_load_n(found, __ATOMIC_RELAXED); least < now;) {
      if (__atomic_compare_exchange_n(found, &now, least, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) break;
    }
  }
};

// Whether products of planes may have been less than any normal number: those of the least x and the least weight are.
template <class Element>
bool may_vanish(const Problem& p, const Operands& operands, ParallelFor parallel_for) {
  using Stored = typename Element::Stored;
  uint32_t of_x = ~0u, of_weight = ~0u;
  const Stored* x = static_cast<const Stored*>(operands.x);
  const int64_t features = p.a * p.c * p.d, *strides = operands.weight_strides;
  const bool first = p.layout == Layout::batch_first;
  const int64_t rows = first ? p.batch : features, columns = first ? features : p.batch;
  run(Least<Element>{x, columns, operands.x_stride, 1, &of_x}, rows, parallel_for);
  const Stored* weight = static_cast<const Stored*>(operands.weight);
  for (int64_t i = 0; i < p.a; ++i) {
    for (int64_t r = 0; r < p.b; ++r) {
      const Stored* from = weight + i * strides[0] + r * strides[1];
      run(Least<Element>{from, p.d, strides[2], strides[3], &of_weight}, p.c, parallel_for);
    }
  }
  if (of_x == ~0u || of_weight == ~0u) return false;
  // Exponents with their biases of 127; the smallest plane of a product is 2^24 times less, the least number 2^-126.
  return int64_t(of_x >> 23) + int64_t(of_weight >> 23) - 2 * 127 < -126 + 24 + 2;
}

// False where the result cannot be vouched for; it is to be computed by another variant then.
template <class Element>
bool multiply_by_tiles(const Problem& problem, const Operands& operands, ParallelFor parallel_for) {
  const AmxPlan plan(problem, Planes<Element>::count);
  const Buffer weights(problem.a * problem.d * plan.row_tiles * plan.row_words());
  uint32_t* const packed = reinterpret_cast<uint32_t*>(weights.get());
  run(AmxWeights<Element>{plan, operands, packed}, problem.a * plan.row_tiles, parallel_for);
  const Bias<Element> bias(problem, operands, 16);
  Findings findings;
  run(AmxTasks<Element>(plan, operands, packed, bias.get(), &findings), plan.tasks(), parallel_for,
      plan.batch_blocks);
  return !findings.doubt && !(findings.zero && may_vanish<Element>(problem, operands, parallel_for));
}

}  // namespace KSMM_VARIANT
}  // namespace ksmm
