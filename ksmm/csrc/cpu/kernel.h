// The kernel's entry, for one instruction set: from a dtype and a layout to a class template.
#pragma once

#include "batch_last.h"
#include "few_columns.h"

namespace ksmm {
namespace KSMM_VARIANT {

template <class Element>
void multiply_elements(const Problem& problem, const Operands& operands, ParallelFor parallel_for) {
  if (problem.layout == Layout::batch_first) {
    multiply_batch_first<Element>(problem, operands, parallel_for);
  } else if (are_few_columns<Element>(problem, operands)) {
    multiply_few_columns<Element>(problem, operands, parallel_for);
  } else {
    multiply_batch_last<Element>(problem, operands, parallel_for);
  }
}

void multiply(const Problem& problem, const Operands& operands, ParallelFor parallel_for) {
#if defined(__AVX512BF16__)  // for what it has its own instructions, and nothing else
  multiply_elements<BFloat16Pairs>(problem, operands, parallel_for);
#else
  switch (problem.dtype) {
    case Dtype::float32: return multiply_elements<Float32>(problem, operands, parallel_for);
    case Dtype::float16: return multiply_elements<Float16>(problem, operands, parallel_for);
    case Dtype::bfloat16: return multiply_elements<BFloat16>(problem, operands, parallel_for);
  }
#endif
}

}  // namespace KSMM_VARIANT
}  // namespace ksmm
