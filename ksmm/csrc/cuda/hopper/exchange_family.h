// batch_first with d a multiple of 16 (or 24), for 16-bit types, by clusters whose blocks exchange what they have: in
// one pass, for b of up to 128 or so; or in two, X transposed first, for b and c of 96 to 384.
#pragma once

#include "passes.h"

namespace ksmm::hopper {

Configurations exchange_configurations();

// The second pass of two alone, as configurations whose X is what the first pass leaves.
Configurations exchange_products();

inline Passes describe_two_passes(const Problem& problem, const Operands& operands, int64_t rows, void* x) {
  const auto& [a, b, c, d, batch, dtype, layout, precision] = problem;
  Passes passes = {{size_of(dtype), operands.x, x, rows * a, c, d}, {}, problem, operands};
  passes.product.batch = rows, passes.of_product.x = x;
  return passes;
}

// Whether X and Y are such that two passes can be taken, if a product can.
inline bool suits_two_passes(const Problem& problem, const Operands& operands) {
  return problem.layout == Layout::batch_first && problem.d > 1 && problem.batch > 0 &&
         operands.x_stride == problem.a * problem.c * problem.d &&
         can_transpose(describe_two_passes(problem, operands, problem.batch, nullptr).x);
}

}  // namespace ksmm::hopper
