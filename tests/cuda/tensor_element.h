// Where elements of a tensor that the copy engine is told of lie. For programs that follow its boxes on the CPU.
#pragma once

#include <cstdint>

#include "../../ksmm/csrc/cuda/hopper/tensor_map.h"

constexpr int64_t nothing = -1, unknown = -2;  // what lies outside of a tensor, and what nobody has written

// The number in memory of an element of a tensor of four dimensions.
inline int64_t element(const ksmm::hopper::TensorBox& tensor, int column, int feature, int row, int i) {
  const int64_t at[] = {column, feature, row, i};
  int64_t number = 0;
  for (int dimension = 0; dimension < 4; ++dimension) {
    if (at[dimension] < 0 || at[dimension] >= tensor.sizes[dimension]) return nothing;
    number += at[dimension] * tensor.strides[dimension];
  }
  return number;
}
