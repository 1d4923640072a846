// Weights and biases in the order that the configurations for Hopper read: (a, d, b, c), rows of c padded to 16 bytes,
// and (a, d, b).
#pragma once

#include <cuda_runtime.h>

#include "../ks_matmul.h"

namespace ksmm {

// Elements of a row of c with what it is padded by.
inline int64_t padded_c(const Problem& problem) {
  const int64_t multiple = 16 / size_of(problem.dtype);
  return (problem.c + multiple - 1) / multiple * multiple;
}

// Makes the weight one that is arranged, as far as its strides say so.
inline void stride_as_arranged(const Problem& problem, Operands* operands) {
  const int64_t row = padded_c(problem), plane = problem.b * row;
  operands->weight_strides[0] = problem.d * plane, operands->weight_strides[1] = row;
  operands->weight_strides[2] = 1, operands->weight_strides[3] = plane;
}

// Whether the weight is already stored so (see Configuration::arranged_weight).
bool is_arranged(const Problem& problem, const Operands& operands);

// Copies the weight into the workspace, arranged, and makes `operands` point to it.
cudaError_t arrange_weight(const Problem& problem, Operands* operands, const Workspace& workspace, cudaStream_t stream);

// Copies the bias into the workspace, arranged, and makes `bias` point to it.
cudaError_t arrange_bias(const Problem& problem, const void** bias, const Workspace& workspace, cudaStream_t stream);

}  // namespace ksmm
