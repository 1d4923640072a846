// What products of tiles are expected to take, against the other variants.
#pragma once

#include "amx_plan.h"

namespace ksmm {
namespace KSMM_VARIANT {

// Nanoseconds of a core for 16 n of one (i, j), measured on an Intel Xeon with AMX (docs/cpu.md).
struct AmxCosts {
  double read, write;  // a vector of X, of Y
  double remaining;    // the part of these that products do not hide
};

// Whether tiles are the faster way: their products, reading and writing, and the weights' share, against multiply-adds.
template <class Element>
bool tiles_pay(const Problem& p) {
  // Where X is badly scaled, so few products multiply-adds sum more exactly.
  if (std::is_same<Element, Float32>::value && p.c < 24) return false;
  constexpr bool pairs = std::is_same<Element, BFloat16>::value;  // the product of pairs takes more than two others
  constexpr double tile_product = 6.9, weight = 0.5;
  constexpr double vector_product = pairs ? 0.36 : 0.22;  // of 16 n
  const AmxPlan plan(p, Planes<Element>::count);
  const AmxCosts costs = plan.is_first() ? AmxCosts{5.0, 9.0, 1.0} : AmxCosts{4.0, 6.5, 0.7};
  const double b = double(p.b), c = double(p.c), n = double(p.batch);
  const double products = double(plan.row_tiles * plan.depth_tiles * Planes<Element>::products) * tile_product;
  const double columns = double(divide_up(p.batch, 16)) * 16 / n;
  const double tiles =
      columns * products + costs.remaining * (costs.read * c + costs.write * b) + weight * b * c * 16 / n;
  const bool few = double(p.a * p.d) * b * c * n < (pairs ? 5e6 : 5e7);  // threads get in each other's way
  // What is read and written takes longer, where nothing hides it, when other programs have filled the caches.
  const bool exposed = plan.is_first() && !pairs;
  const bool far = exposed && plan.weight_bytes() > 4 << 20;
  return !few && !far && plan.fits() && (exposed ? 1.45 : 1.05) * tiles < vector_product * b * c;
}

}  // namespace KSMM_VARIANT
}  // namespace ksmm
