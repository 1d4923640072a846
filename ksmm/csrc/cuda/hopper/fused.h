// Two factors in one launch: which chains are taken, and the launch. Host code.
#pragma once

#include "../configuration.h"

namespace ksmm::hopper {

// Y = outer · (inner · X) + bias in batch_first; x of `outer` and y of `inner` are not used. Returns
// cudaErrorNotSupported where no tile takes the chain.
cudaError_t multiply_fused(const Problem& inner, const Operands& of_inner, const Problem& outer,
                           const Operands& of_outer, const Machine& machine, cudaStream_t stream);

// How long that takes, as far as can be told; infinite where no tile takes the chain.
double fused_seconds(const Problem& inner, const Problem& outer, const Machine& machine);

}  // namespace ksmm::hopper
