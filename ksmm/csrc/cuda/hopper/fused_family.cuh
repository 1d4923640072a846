// The tiles of a kernel for two factors that are compiled in, as one ChainKernel. Host code.
#pragma once

#include <algorithm>
#include <cmath>

#include "../arrange.cuh"
#include "../number.cuh"
#include "chain_kernel.h"

namespace ksmm::hopper {

// What both kernels for any number of rows take: a Monarch layer in 16 bits.
inline bool is_monarch(const Problem& inner, const Problem& outer, const Machine& machine) {
  return machine.capability == 90 && inner.d == 1 && outer.a == 1 && inner.layout == Layout::batch_first &&
         inner.dtype != Dtype::float32 && inner.batch <= INT32_MAX && inner.c >= 16;
}

// Of those that take a chain, the first. Each has static functions: fits(inner, outer, machine), by the sizes alone;
// takes(inner, of_inner, outer, of_outer, machine), with operands; seconds(inner, outer, machine) of what fits; and
// launch<T>(inner, of_inner, outer, of_outer, machine, stream).
template <class... Members>
struct FusedFamily {
  static double seconds(const Problem& inner, const Problem& outer, const Machine& machine) {
    double found = INFINITY;
    if (!is_monarch(inner, outer, machine)) return found;
    ((Members::fits(inner, outer, machine) && (found = Members::seconds(inner, outer, machine), true)) || ...);
    return found;
  }
  static cudaError_t multiply(const Problem& inner, const Operands& of_inner, const Problem& outer,
                              const Operands& of_outer, const Machine& machine, cudaStream_t stream) {
    if (!is_monarch(inner, outer, machine) || !is_arranged(inner, of_inner) || !is_arranged(outer, of_outer))
      return cudaErrorNotSupported;
    return inner.dtype == Dtype::float16 ? launch_first<float16>(inner, of_inner, outer, of_outer, machine, stream)
                                         : launch_first<bfloat16>(inner, of_inner, outer, of_outer, machine, stream);
  }

 private:
  template <class T>
  static cudaError_t launch_first(const Problem& inner, const Operands& of_inner, const Problem& outer,
                                  const Operands& of_outer, const Machine& machine, cudaStream_t stream) {
    cudaError_t error = cudaErrorNotSupported;
    ((Members::takes(inner, of_inner, outer, of_outer, machine) &&
      (error = Members::template launch<T>(inner, of_inner, outer, of_outer, machine, stream), true)) ||
     ...);
    return error;
  }
};

}  // namespace ksmm::hopper
