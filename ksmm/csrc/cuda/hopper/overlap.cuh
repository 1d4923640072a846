// Kernels that begin while the one before them on the stream ends (programmatic dependent launch). Compute
// capability 9.0.
//
// Each block sets itself up, which needs nothing from memory, and then waits until all work that was queued before is
// complete. Between small products this hides a launch; it also works inside CUDA graphs. Until then it may ask for
// what it will read into the L2 cache (prefetch_box in copy.cuh), but not read it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../shared_memory.h"

namespace ksmm::hopper {

// All threads call it before they touch device memory. The next kernel begins once all blocks have ended: for many
// short blocks, which fill multiprocessors. What begins among them crowds on those that have room first.
__device__ inline void wait_for_kernels_before_alone() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The same, but from here on the next kernel may begin, and wait in its turn.
__device__ inline void wait_for_kernels_before() {
  wait_for_kernels_before_alone();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// What a kernel that runs beside the one before it on the stream calls instead, at its end. It may touch device memory
// at once: it begins when all blocks of that one, which calls wait_for_kernels_before(), have seen all work before
// complete. Who waits for it then waits for both. All threads call it; a warp that waited earlier would hold up those
// of its block that do not wait yet.
__device__ inline void wait_for_kernel_beside() {
  __syncthreads();
  wait_for_kernels_before();
}

// Enqueues a kernel that calls wait_for_kernels_before(), in clusters of so many blocks, on a Machine that overlaps:
// code compiled below 9.0 would not wait, and would read what is not written yet. Begins early: its blocks may wait on
// multiprocessors that are free, which others on other streams could use. Leaves no error behind for whoever
// asks next.
template <class... Parameters>
cudaError_t launch_waiting(bool begins_early, void (*kernel)(Parameters...), int64_t blocks, int threads,
                           int64_t shared_bytes, int cluster, cudaStream_t stream, Parameters... parameters) {
  if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = begins_early;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(static_cast<unsigned>(blocks)), launch.blockDim = dim3(static_cast<unsigned>(threads));
  launch.dynamicSmemBytes = static_cast<size_t>(shared_bytes), launch.stream = stream;
  launch.attrs = attributes, launch.numAttrs = cluster > 1 ? 2 : 1;
  cudaError_t error = allow_shared_memory(reinterpret_cast<const void*>(kernel), shared_bytes);
  if (error == cudaSuccess) error = cudaLaunchKernelEx(&launch, kernel, parameters...);
  if (error != cudaSuccess) cudaGetLastError();
  return error;
}

// The same, early.
template <class... Parameters>
cudaError_t launch_overlapping(void (*kernel)(Parameters...), int64_t blocks, int threads, int64_t shared_bytes,
                               int cluster, cudaStream_t stream, Parameters... parameters) {
  return launch_waiting(true, kernel, blocks, threads, shared_bytes, cluster, stream, parameters...);
}

}  // namespace ksmm::hopper
