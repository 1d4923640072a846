// The matrix-unit kernel for float16.
#include "tensor.cuh"

namespace ksmm {

template <>
cudaError_t multiply_tensor<float16>(const Problem& problem, const Operands& operands, const Machine& machine,
                                     cudaStream_t stream) {
  return launch_tensor<float16>(problem, operands, machine, stream);
}

}  // namespace ksmm
