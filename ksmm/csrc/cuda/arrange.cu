// Weights and biases in the order that the configurations for Hopper read.
#include <algorithm>

#include "arrange.cuh"
#include "configuration.h"
#include "launch.cuh"
#include "number.cuh"

namespace ksmm {
namespace {

struct Arrangement {
  int64_t b, c, d, padded_c, elements;  // elements of the destination
  int64_t i_stride, r_stride, k_stride, j_stride;
};

// Threads take neighbours in the destination: the weight is small next to X, and its reads meet in the L2 cache.
template <class Word>
__global__ void arrange_kernel(const Word* __restrict__ source, Word* __restrict__ destination, Arrangement size) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < size.elements; at += step) {
    const int64_t k = at % size.padded_c, row = at / size.padded_c;
    const int64_t r = row % size.b, plane = row / size.b;
    const int64_t j = plane % size.d, i = plane / size.d;
    const int64_t from = i * size.i_stride + r * size.r_stride + k * size.k_stride + j * size.j_stride;
    destination[at] = k < size.c ? source[from] : Word(0);
  }
}

cudaError_t arrange(Dtype dtype, const void* source, void* destination, const Arrangement& size, cudaStream_t stream) {
  constexpr int threads = 256;
  const int64_t blocks = std::min<int64_t>(parts_of(size.elements, threads), 65535);
  if (dtype == Dtype::float32)
    return launch_blocks(arrange_kernel<uint32_t>, blocks, threads, 0, stream, static_cast<const uint32_t*>(source),
                         static_cast<uint32_t*>(destination), size);
  return launch_blocks(arrange_kernel<uint16_t>, blocks, threads, 0, stream, static_cast<const uint16_t*>(source),
                       static_cast<uint16_t*>(destination), size);
}

}  // namespace

bool is_arranged(const Problem& problem, const Operands& operands) {
  const int64_t* strides = operands.weight_strides;
  const int64_t multiple = 16 / size_of(problem.dtype);
  const auto fits = [&](int64_t stride, int64_t size) { return size == 1 || stride % multiple == 0; };
  return reinterpret_cast<uintptr_t>(operands.weight) % 16 == 0 && (problem.c == 1 || strides[2] == 1) &&
         fits(strides[0], problem.a) && fits(strides[1], problem.b) && fits(strides[3], problem.d);
}

cudaError_t arrange_weight(const Problem& problem, Operands* operands, const Workspace& workspace,
                           cudaStream_t stream) {
  const int64_t row = padded_c(problem), elements = problem.a * problem.d * problem.b * row;
  void* arranged = workspace.allocate(static_cast<size_t>(elements) * size_of(problem.dtype), workspace.context);
  const int64_t* strides = operands->weight_strides;
  const Arrangement size = {problem.b,  problem.c,  problem.d,  row,       elements,
                            strides[0], strides[1], strides[2], strides[3]};
  const cudaError_t error = arrange(problem.dtype, operands->weight, arranged, size, stream);
  operands->weight = arranged;
  stride_as_arranged(problem, operands);
  return error;
}

cudaError_t arrange_bias(const Problem& problem, const void** bias, const Workspace& workspace, cudaStream_t stream) {
  const auto& [a, b, c, d, batch, dtype, layout, precision] = problem;
  void* arranged = workspace.allocate(static_cast<size_t>(a * b * d) * size_of(dtype), workspace.context);
  const Arrangement size = {b, 1, d, 1, a * b * d, b * d, d, 0, 1};
  const cudaError_t error = arrange(dtype, *bias, arranged, size, stream);
  *bias = arranged;
  return error;
}

}  // namespace ksmm
