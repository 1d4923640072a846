// Launching a kernel, and one whose only parameter is its task.
#pragma once

#include <cuda_runtime.h>

#include "shared_memory.h"
#include "task.cuh"

namespace ksmm {

constexpr int64_t most_blocks_of_a_grid = 2147483647;  // its x dimension

// Enqueues `kernel`. Returns its own error, and leaves none behind for whoever asks next; what others left stays.
template <class... Parameters>
cudaError_t launch_blocks(void (*kernel)(Parameters...), int64_t blocks, int threads, int64_t shared_bytes,
                          cudaStream_t stream, Parameters... parameters) {
  if (blocks > most_blocks_of_a_grid) return cudaErrorInvalidConfiguration;
  const dim3 grid(static_cast<unsigned>(blocks)), block(static_cast<unsigned>(threads));
  void* arguments[] = {&parameters...};
  cudaError_t error = allow_shared_memory(reinterpret_cast<const void*>(kernel), shared_bytes);
  if (error == cudaSuccess)
    error = cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, arguments,
                             static_cast<size_t>(shared_bytes), stream);
  if (error != cudaSuccess) cudaGetLastError();
  return error;
}

// The same with a block a tile, but no more than `most_blocks`; the kernels loop over the rest.
template <class T>
cudaError_t launch(void (*kernel)(Task<T>), Task<T> task, int threads, int shared_bytes, cudaStream_t stream,
                   int64_t most_blocks = most_blocks_of_a_grid) {
  return launch_blocks(kernel, task.tiles < most_blocks ? task.tiles : most_blocks, threads, shared_bytes, stream,
                       task);
}

}  // namespace ksmm
