// Shared memory beyond what every kernel may have. Host code.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ksmm {

// Lets a kernel be launched with so many bytes of shared memory on the current device. What was allowed once is
// remembered: asking CUDA again takes half a microsecond of each launch.
cudaError_t allow_shared_memory(const void* kernel, int64_t bytes);

}  // namespace ksmm
