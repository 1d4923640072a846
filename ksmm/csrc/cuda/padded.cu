// Products in batch_last whose rows are no multiple of 16 bytes: X is copied to rows that are, multiplied by whatever
// is fastest there, and Y copied back. Three passes over memory instead of one, where reading element by element costs
// more.
#include <algorithm>
#include <cstdint>

#include "padded.h"

namespace ksmm {
namespace {

constexpr int threads = 256, per_thread = 8;

struct Rows {
  const void* source;
  void* destination;
  int64_t source_stride, destination_stride;  // elements
  int64_t count, source_width, width;         // rows, and elements of each; those the source lacks become 0
  int64_t parts;                              // of a row
};

// Neighbouring threads take neighbouring elements: either side may begin anywhere.
template <class Word>
__global__ void __launch_bounds__(threads) copy_rows_kernel(const Rows rows) {
  const auto* source = static_cast<const Word*>(rows.source);
  auto* destination = static_cast<Word*>(rows.destination);
  const int64_t blocks = rows.count * rows.parts;
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int64_t row = block / rows.parts, first = block % rows.parts * (threads * per_thread) + threadIdx.x;
    Word words[per_thread];
#pragma unroll
    for (int at = 0; at < per_thread; ++at)
      words[at] = first + at * threads < rows.source_width
                      ? __ldg(source + row * rows.source_stride + first + at * threads)
                      : Word(0);
#pragma unroll
    for (int at = 0; at < per_thread; ++at)
      if (first + at * threads < rows.width)
        destination[row * rows.destination_stride + first + at * threads] = words[at];
  }
}

cudaError_t copy_rows(Rows rows, int element_size, cudaStream_t stream) {
  rows.parts = (rows.width + threads * per_thread - 1) / (threads * per_thread);
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(rows.count * rows.parts, INT32_MAX));
  if (element_size == 4)
    copy_rows_kernel<uint32_t><<<blocks, threads, 0, stream>>>(rows);
  else
    copy_rows_kernel<uint16_t><<<blocks, threads, 0, stream>>>(rows);
  return cudaGetLastError();
}

Problem padded(Problem problem) {
  const int64_t multiple = 16 / size_of(problem.dtype);
  problem.batch = (problem.batch + multiple - 1) / multiple * multiple;
  return problem;
}

// The columns that are added are zeros: were there an infinity in one, its neighbours would be added up in another
// order (see tf32_epilogue.cuh).
bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
  const auto aligned = [](const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; };
  const int64_t multiple = 16 / size_of(problem.dtype);
  const bool fits =
      problem.batch % multiple == 0 && operands.x_stride % multiple == 0 && aligned(operands.x) && aligned(operands.y);
  return machine.capability == 90 && problem.layout == Layout::batch_last && !fits;
}

double seconds(const Problem& problem, const Machine& machine) {
  const double features = static_cast<double>(problem.a) * problem.d * (problem.b + problem.c);
  const double copies = 2 * features * problem.batch * size_of(problem.dtype) / (0.8 * machine.memory_rate);
  return 5e-6 + copies + least_seconds(padded(problem), machine);
}

cudaError_t launch(const Problem& problem, const Operands& operands, const Machine&, const Workspace& workspace,
                   cudaStream_t stream) {
  const Problem inner = padded(problem);
  const int64_t in = problem.a * problem.c * problem.d, out = problem.a * problem.b * problem.d;
  const int size = size_of(problem.dtype);
  void* x = workspace.allocate(static_cast<size_t>(in * inner.batch) * size, workspace.context);
  void* y = workspace.allocate(static_cast<size_t>(out * inner.batch) * size, workspace.context);
  Operands of_inner = operands;
  of_inner.x = x, of_inner.x_stride = inner.batch, of_inner.y = y;
  cudaError_t error =
      copy_rows({operands.x, x, operands.x_stride, inner.batch, in, problem.batch, inner.batch, 0}, size, stream);
  if (error == cudaSuccess) error = static_cast<cudaError_t>(multiply_cuda(inner, of_inner, -1, workspace, stream));
  if (error != cudaSuccess) return error;
  return copy_rows({y, operands.y, inner.batch, problem.batch, out, problem.batch, problem.batch, 0}, size, stream);
}

constexpr Configuration family[] = {{"padded", false, takes, seconds, launch}};

}  // namespace

Configurations padded_configurations() { return {family, 1}; }

}  // namespace ksmm
