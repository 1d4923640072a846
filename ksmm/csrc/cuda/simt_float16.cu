// The SIMT kernel for float16.
#include "simt.cuh"

namespace ksmm {

template <>
cudaError_t multiply_simt<float16>(const Problem& problem, const Operands& operands, cudaStream_t stream) {
  return launch_simt<float16>(problem, operands, stream);
}

}  // namespace ksmm
