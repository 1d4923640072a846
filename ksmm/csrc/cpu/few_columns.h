// batch_last with few columns, as batch_first: X is turned on its way in, and Y on its way out.
//
// Lanes are n in batch_last, and few of them would be used; and there the weights are packed at each call, which takes
// longer than the product. In batch_first lanes are outputs, and float32 weights are read where they are stored
// (batch_first_weights.h).
#pragma once

#include "batch_first.h"
#include "turn.h"

namespace ksmm {
namespace KSMM_VARIANT {

// Whether that is expected to be faster: fitted to what two Zen 4 cores take for 30 patterns. Turning takes as long as
// X and Y are, for each column b + c of them; packing b c weights is saved in float32.
template <class Element>
bool are_few_columns(const Problem& problem, const Operands& operands) {
  const int64_t n = problem.batch;
  if (problem.b * problem.d < lanes) return false;  // the outputs of an i do not fill a vector
  if (n <= 4) return true;
  return std::is_same<Element, Float32>::value && weights_are_in_vectors(problem, operands) &&
         n <= (registers == 32 ? 192 : most_rows_of_stored) && n * (problem.b + problem.c) <= problem.b * problem.c;
}

template <class Element>
void multiply_few_columns(const Problem& problem, const Operands& operands, ParallelFor parallel_for) {
  using Stored = typename Element::Stored;
  const int64_t inputs = problem.a * problem.c * problem.d, outputs = problem.a * problem.b * problem.d;
  const auto floats = [&](int64_t features) {  // whole lines
    return divide_up(features * problem.batch * static_cast<int64_t>(sizeof(Stored)), 64) * 16;
  };
  const bool one = problem.batch == 1;  // then Y is in order as it is, and X if its numbers are neighbours
  const Buffer x(one && operands.x_stride == 1 ? 1 : floats(inputs)), y(one ? 1 : floats(outputs));
  Problem by_rows = problem;
  Operands turned = operands;
  by_rows.layout = Layout::batch_first;
  turned.x_stride = inputs;
  if (!one || operands.x_stride != 1) {
    Stored* const to = reinterpret_cast<Stored*>(x.get());
    const Turn<Stored> turn{static_cast<const Stored*>(operands.x), inputs, problem.batch, operands.x_stride, to};
    run(turn, turn.tasks(), parallel_for);
    turned.x = to;
  }
  if (!one) turned.y = y.get();
  multiply_batch_first<Element>(by_rows, turned, parallel_for);
  if (!one) {
    const Turn<Stored> turn{reinterpret_cast<const Stored*>(y.get()), problem.batch, outputs, outputs,
                            static_cast<Stored*>(operands.y)};
    run(turn, turn.tasks(), parallel_for);
  }
}

}  // namespace KSMM_VARIANT
}  // namespace ksmm
