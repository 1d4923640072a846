// Weights and biases in the order that the configurations for Hopper read: (a, d, b, c), rows of c padded to 16 bytes,
// and (a, d, b).
#pragma once

#include <cuda_runtime.h>

#include "../ks_matmul.h"

namespace ksmm {

// Whether the weight is already stored so (see Configuration::arranged_weight).
bool is_arranged(const Problem& problem, const Operands& operands);

// Copies the weight into the workspace, arranged, and makes `operands` point to it.
cudaError_t arrange_weight(const Problem& problem, Operands* operands, const Workspace& workspace, cudaStream_t stream);

// Copies the bias into the workspace, arranged, and makes `bias` point to it.
cudaError_t arrange_bias(const Problem& problem, const void** bias, const Workspace& workspace, cudaStream_t stream);

}  // namespace ksmm
