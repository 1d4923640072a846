// The SIMT kernel for float32.
#include "simt.cuh"

namespace ksmm {

template <>
cudaError_t multiply_simt<float>(const Problem& problem, const Operands& operands, cudaStream_t stream) {
  return launch_simt<float>(problem, operands, stream);
}

}  // namespace ksmm
