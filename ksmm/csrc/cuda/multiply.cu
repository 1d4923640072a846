// The entry point: picks the kernel for the dtype.
#include "../ks_matmul.h"
#include "strict.cuh"
#include "tensor.cuh"

namespace ksmm {

int multiply_cuda(const Problem& problem, const Operands& operands, void* stream) {
  if (problem.batch == 0) return cudaSuccess;  // an empty grid is an error to CUDA
  const auto queue = static_cast<cudaStream_t>(stream);
  switch (problem.dtype) {
    case Dtype::float32: return multiply_strict(problem, operands, queue);
    case Dtype::float16: return multiply_tensor<float16>(problem, operands, queue);
    case Dtype::bfloat16: return multiply_tensor<bfloat16>(problem, operands, queue);
  }
  return cudaErrorInvalidValue;
}

}  // namespace ksmm
