// The bias of a call as float32 numbers, with zeros after them: tiles at the edge read past its end.
#pragma once

#include "element.h"
#include "work.h"

namespace ksmm {
namespace KSMM_VARIANT {

template <class Element>
class Bias {
 public:
  // margin: how many numbers past the end are read.
  Bias(const Problem& problem, const Operands& operands, int64_t margin)
      : buffer_(operands.bias ? problem.a * problem.b * problem.d + margin : 1), given_(operands.bias != nullptr) {
    if (!given_) return;
    const int64_t count = problem.a * problem.b * problem.d;
    convert<Element>(static_cast<const typename Element::Stored*>(operands.bias), count, buffer_.get(), 0);
    std::memset(buffer_.get() + count, 0, margin * sizeof(float));
  }

  // Null where there is no bias.
  const float* get() const { return given_ ? buffer_.get() : nullptr; }

 private:
  const Buffer buffer_;
  const bool given_;
};

}  // namespace KSMM_VARIANT
}  // namespace ksmm
