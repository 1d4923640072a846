// Launching a kernel whose only parameter is its task.
#pragma once

#include <cuda_runtime.h>

#include "task.cuh"

namespace ksmm {

constexpr int64_t most_blocks_of_a_grid = 2147483647;  // its x dimension

// Enqueues `kernel` with a block a tile, but no more than `most_blocks`; the kernels loop over the rest.
// Returns its own error, and leaves none behind for whoever asks next.
template <class T>
cudaError_t launch(void (*kernel)(Task<T>), Task<T> task, int threads, int shared_bytes, cudaStream_t stream,
                   int64_t most_blocks = most_blocks_of_a_grid) {
  const dim3 grid(static_cast<unsigned>(task.tiles < most_blocks ? task.tiles : most_blocks));
  void* arguments[] = {&task};
  cudaError_t error = cudaSuccess;
  if (shared_bytes > 48 * 1024)
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (error == cudaSuccess)
    error = cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, dim3(static_cast<unsigned>(threads)),
                             arguments, static_cast<size_t>(shared_bytes), stream);
  if (error != cudaSuccess) cudaGetLastError();
  return error;
}

}  // namespace ksmm
