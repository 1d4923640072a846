// Kernels that multiply by two factors in one launch, in batch_first. Host code.
#pragma once

#include <cmath>

#include "../configuration.h"

namespace ksmm::hopper {

struct ChainKernel {
  // How long Y = outer · (inner · X) takes, as far as can be told; infinite where that is unknown, or not possible.
  double (*seconds)(const Problem& inner, const Problem& outer, const Machine& machine);
  // Enqueues it, with the outer bias; x of `outer` and y of `inner` are not used. Returns cudaErrorNotSupported, having
  // done nothing, where the kernel does not take the chain.
  cudaError_t (*multiply)(const Problem& inner, const Operands& of_inner, const Problem& outer,
                          const Operands& of_outer, const Machine& machine, cudaStream_t stream);
};

// What stands in the place of one that is not compiled.
inline constexpr ChainKernel no_chain_kernel = {
    [](const Problem&, const Problem&, const Machine&) { return static_cast<double>(INFINITY); },
    [](const Problem&, const Operands&, const Problem&, const Operands&, const Machine&, cudaStream_t) {
      return cudaErrorNotSupported;
    }};

extern const ChainKernel fused;           // any number of rows
extern const ChainKernel fused_streamed;  // any number of rows
extern const ChainKernel few_chain;       // up to 32

}  // namespace ksmm::hopper
