// Whether products of planes may have been taken for zero, by the least numbers that there are.
#pragma once

#include "amx_planes.h"
#include "work.h"

namespace ksmm {
namespace KSMM_VARIANT {

// The least magnitude but zero, as the bits of float32, of what it looked at.
template <class Element>
class Least {
 public:
  using Stored = typename Element::Stored;

  void look_at(const Stored* from, int64_t count, int64_t step) {
    int64_t done = 0;
    if (step == 1) {
      for (; done + lanes <= count; done += lanes) look_at(Element::load(from + done));
    }
    for (; done < count; ++done) look_at(broadcast(read<Element>(from + done * step)));
  }

  // All ones where everything is zero.
  uint32_t bits_less_one() const { return _mm512_reduce_min_epu32(less_one_); }

 private:
  KSMM_INLINE void look_at(Vector numbers) {  // zero becomes the largest
    less_one_ = _mm512_min_epu32(less_one_, (__m512i)(((Words)numbers & 0x7fffffff) - 1));
  }

  __m512i less_one_ = _mm512_set1_epi32(-1);
};

// Of the rows that of_row(row, least) looks at, shared among threads.
template <class Element, class OfRow>
struct LeastOfRows {
  const OfRow& of_row;
  uint32_t* found;  // starts as all ones

  void work(Tasks& tasks) const {
    Least<Element> least;
    for (int64_t first, last; tasks.take(first, last);) {
      for (int64_t row = first; row < last; ++row) of_row(row, least);
    }
    const uint32_t mine = least.bits_less_one();
    for (uint32_t now = __atomic_load_n(found, __ATOMIC_RELAXED); mine < now;) {
      if (__atomic_compare_exchange_n(found, &now, mine, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) break;
    }
  }
};

template <class Element, class OfRow>
uint32_t least_of_rows(int64_t rows, const OfRow& of_row, ParallelFor parallel_for) {
  uint32_t found = ~0u;
  run(LeastOfRows<Element, OfRow>{of_row, &found}, rows, parallel_for);
  return found;
}

// Whether a product of planes may have been less than any normal number: whether those of the least numbers are.
template <class Element>
bool may_vanish(const Problem& p, const Operands& operands, ParallelFor parallel_for) {
  using Stored = typename Element::Stored;
  const Stored* x = static_cast<const Stored*>(operands.x);
  const Stored* weight = static_cast<const Stored*>(operands.weight);
  const int64_t features = p.a * p.c * p.d, *strides = operands.weight_strides;
  const bool first = p.layout == Layout::batch_first, one_run = strides[3] == 1 && strides[2] == p.d;
  const auto row_of_x = [&](int64_t row, Least<Element>& least) {
    least.look_at(x + row * operands.x_stride, first ? features : p.batch, 1);
  };
  const auto row_of_weight = [&](int64_t row, Least<Element>& least) {
    const Stored* from = weight + row / p.b * strides[0] + row % p.b * strides[1];
    if (one_run) return least.look_at(from, p.c * p.d, 1);
    for (int64_t j = 0; j < p.d; ++j) least.look_at(from + j * strides[3], p.c, strides[2]);
  };
  const uint32_t of_x = least_of_rows<Element>(first ? p.batch : features, row_of_x, parallel_for);
  const uint32_t of_weight = least_of_rows<Element>(p.a * p.b, row_of_weight, parallel_for);
  if (of_x == ~0u || of_weight == ~0u) return false;
  // Exponents with their biases of 127; the smallest plane of a product is 2^24 times less, the least number 2^-126.
  return int64_t(of_x >> 23) + int64_t(of_weight >> 23) - 2 * 127 < -126 + 24 + 2;
}

}  // namespace KSMM_VARIANT
}  // namespace ksmm
