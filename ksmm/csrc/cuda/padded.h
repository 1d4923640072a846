// Products in batch_last whose rows are no multiple of 16 bytes, by way of copies whose rows are.
#pragma once

#include <cstdint>

#include "configuration.h"

namespace ksmm {

// Whether rows of X and Y in batch_last begin at multiples of 16 bytes.
inline bool rows_fit(const Problem& problem, const Operands& operands) {
  const int64_t multiple = 16 / size_of(problem.dtype);
  const auto aligned = [](const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; };
  return problem.batch % multiple == 0 && operands.x_stride % multiple == 0 && aligned(operands.x) &&
         aligned(operands.y);
}

Configurations padded_configurations();

}  // namespace ksmm
