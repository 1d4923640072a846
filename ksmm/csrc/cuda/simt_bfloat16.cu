// The SIMT kernel for bfloat16.
#include "simt.cuh"

namespace ksmm {

template <>
cudaError_t multiply_simt<bfloat16>(const Problem& problem, const Operands& operands, cudaStream_t stream) {
  return launch_simt<bfloat16>(problem, operands, stream);
}

}  // namespace ksmm
