// Launches the matrix-unit kernel; instantiated in a file for each dtype, so that the dtypes compile side by side.
#pragma once

#include "launch.cuh"
#include "simt.cuh"
#include "tensor_family.cuh"

namespace ksmm {

// Enqueues the product, with the SIMT kernel where the matrix units cannot be used; returns the launch's error.
template <class T>
cudaError_t multiply_tensor(const Problem& problem, const Operands& operands, cudaStream_t stream);
template <>
cudaError_t multiply_tensor<float16>(const Problem& problem, const Operands& operands, cudaStream_t stream);
template <>
cudaError_t multiply_tensor<bfloat16>(const Problem& problem, const Operands& operands, cudaStream_t stream);

// Whether the code that runs on the current device was compiled for compute capability 8.0 or newer; below, the kernel
// is empty. The device alone does not tell: a newer one may be running translated code of an older one.
inline cudaError_t has_matrix_units(const void* kernel, bool* yes) {
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  *yes = error == cudaSuccess && attributes.ptxVersion >= 80;
  return error;
}

inline cudaError_t shared_memory_limit(int* bytes) {
  int device = 0;
  const cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  return cudaDeviceGetAttribute(bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
}

// As many blocks as run at once, each of which takes several tiles.
inline cudaError_t resident_blocks(int blocks_per_multiprocessor, int64_t* blocks) {
  int device = 0, multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  *blocks = static_cast<int64_t>(multiprocessors) * blocks_per_multiprocessor;
  return error;
}

template <class T, Layout LAYOUT, class Tile>
cudaError_t launch_resident(const TensorTask<T>& task, cudaStream_t stream) {
  const auto kernel = tensor_kernel<T, LAYOUT, Tile>;
  constexpr int bytes = TensorShared<LAYOUT, Tile>::bytes;
  int64_t blocks = 0;
  cudaError_t error = resident_blocks(Tile::blocks_per_multiprocessor, &blocks);
  if (error == cudaSuccess) error = allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes);
  if (error == cudaSuccess) {
    TensorTask<T> argument = task;
    void* arguments[] = {&argument};
    const dim3 grid(static_cast<unsigned>(task.tiles < blocks ? task.tiles : blocks));
    error =
        cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, dim3(Tile::threads), arguments, bytes, stream);
  }
  if (error != cudaSuccess) cudaGetLastError();
  return error;
}

template <class T>
cudaError_t launch_tensor(const Problem& problem, const Operands& operands, cudaStream_t stream) {
  int limit = 0;
  cudaError_t error = shared_memory_limit(&limit);
  if (error != cudaSuccess) return error;
  return with_tensor_tile(problem, limit, [&](auto choice) {
    using Tile = typename decltype(choice)::Tile;
    constexpr Layout layout = decltype(choice)::layout;
    const auto kernel = tensor_kernel<T, layout, Tile>;
    bool usable = false;
    error = has_matrix_units(reinterpret_cast<const void*>(kernel), &usable);
    if (error != cudaSuccess) {
      cudaGetLastError();
      return error;
    }
    if (!usable) return multiply_simt<T>(problem, operands, stream);
    constexpr int y_vector = TensorSteps<T, layout, Tile>::y_vector;
    return launch_resident<T, layout, Tile>(
        TensorCopy<T, layout, Tile>::template make_tensor_task<y_vector>(problem, operands), stream);
  });
}

}  // namespace ksmm
