// Products in batch_last whose rows are no multiple of 16 bytes: X is copied to rows that are, multiplied by whatever
// is fastest there, and Y copied back. Three passes over memory instead of one, where reading element by element costs
// more.
#include <algorithm>
#include <cstdint>

#include "hopper/overlap.cuh"
#include "padded.h"

namespace ksmm {
namespace {

constexpr int threads = 256, per_thread = 8;
// Blocks on a multiprocessor, as many as Hopper has room for; what compiles for other devices does not run there.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
constexpr int resident = 8;
#else
constexpr int resident = 1;
#endif

struct Rows {
  const void* source;
  void* destination;
  int64_t source_stride, destination_stride;  // elements
  int64_t count, source_width, width;         // rows, and elements of each; those the source lacks become 0
};

// Neighbouring threads take neighbouring elements: either side may begin anywhere. A block takes a part of a long row.
template <class Word>
__global__ void __launch_bounds__(threads, resident) copy_long_rows_kernel(const Rows rows, int64_t parts_of_row) {
  hopper::wait_for_kernels_before_alone();
  const int64_t row = blockIdx.x / parts_of_row, part = blockIdx.x - row * parts_of_row;
  const int64_t first = part * (threads * per_thread) + threadIdx.x;
  const auto* source = static_cast<const Word*>(rows.source) + row * rows.source_stride + first;
  auto* destination = static_cast<Word*>(rows.destination) + row * rows.destination_stride + first;
  Word words[per_thread];
#pragma unroll
  for (int at = 0; at < per_thread; ++at)
    words[at] = first + at * threads < rows.source_width ? __ldg(source + at * threads) : Word(0);
#pragma unroll
  for (int at = 0; at < per_thread; ++at)
    if (first + at * threads < rows.width) destination[at * threads] = words[at];
}

// `across` threads take a row, a block several rows.
template <class Word>
__global__ void __launch_bounds__(threads) copy_short_rows_kernel(const Rows rows, int across) {
  hopper::wait_for_kernels_before_alone();
  const int column = threadIdx.x % across, step = threads / across;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (per_thread * step) + threadIdx.x / across;
  const auto* source = static_cast<const Word*>(rows.source) + column;
  auto* destination = static_cast<Word*>(rows.destination) + column;
  Word words[per_thread];
#pragma unroll
  for (int at = 0; at < per_thread; ++at) {
    const bool there = first + at * step < rows.count && column < rows.source_width;
    words[at] = there ? __ldg(source + (first + at * step) * rows.source_stride) : Word(0);
  }
#pragma unroll
  for (int at = 0; at < per_thread; ++at)
    if (first + at * step < rows.count && column < rows.width)
      destination[(first + at * step) * rows.destination_stride] = words[at];
}

template <class Word>
cudaError_t copy_rows(const Rows& rows, cudaStream_t stream) {
  if (rows.width > threads) {
    const int64_t parts = parts_of(rows.width, threads * per_thread);
    return hopper::launch_overlapping(copy_long_rows_kernel<Word>, rows.count * parts, threads, 0, 1, stream, rows,
                                      parts);
  }
  int across = 32;
  while (across < rows.width) across *= 2;
  const int64_t blocks = parts_of(rows.count, per_thread * (threads / across));
  return hopper::launch_overlapping(copy_short_rows_kernel<Word>, blocks, threads, 0, 1, stream, rows, across);
}

cudaError_t copy_rows(const Rows& rows, int element_size, cudaStream_t stream) {
  return element_size == 4 ? copy_rows<uint32_t>(rows, stream) : copy_rows<uint16_t>(rows, stream);
}

Problem padded(Problem problem) {
  const int64_t multiple = 16 / size_of(problem.dtype);
  problem.batch = (problem.batch + multiple - 1) / multiple * multiple;
  return problem;
}

// The columns that are added are zeros: were there an infinity in one, its neighbours would be added up in another
// order (see tf32_epilogue.cuh).
bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
  return machine.capability == 90 && machine.overlaps && problem.layout == Layout::batch_last &&
         !rows_fit(problem, operands);
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
      copy_rows({operands.x, x, operands.x_stride, inner.batch, in, problem.batch, inner.batch}, size, stream);
  if (error == cudaSuccess) error = static_cast<cudaError_t>(multiply_cuda(inner, of_inner, -1, workspace, stream));
  if (error != cudaSuccess) return error;
  return copy_rows({y, operands.y, inner.batch, problem.batch, out, problem.batch, problem.batch}, size, stream);
}

constexpr Configuration family[] = {{"padded", false, takes, seconds, launch}};

}  // namespace

Configurations padded_configurations() { return {family, 1}; }

}  // namespace ksmm
