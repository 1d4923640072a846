// The matrix-unit kernel for bfloat16.
#include "tensor.cuh"

namespace ksmm {

template <>
cudaError_t multiply_tensor<bfloat16>(const Problem& problem, const Operands& operands, const Machine& machine,
                                      cudaStream_t stream) {
  return launch_tensor<bfloat16>(problem, operands, machine, stream);
}

}  // namespace ksmm
