// Two factors of a handful of rows in one launch: which chains are taken, and the launch. Host code.
#pragma once

#include "../configuration.h"

namespace ksmm::hopper {

// As multiply_fused and fused_seconds (fused.h), for batches of up to 32 rows.
cudaError_t multiply_few_chain(const Problem& inner, const Operands& of_inner, const Problem& outer,
                               const Operands& of_outer, const Machine& machine, cudaStream_t stream);
double few_chain_seconds(const Problem& inner, const Problem& outer, const Machine& machine);

}  // namespace ksmm::hopper
