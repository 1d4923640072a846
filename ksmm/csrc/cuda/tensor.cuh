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
    const Task<T> task =
        make_task<T, 8, TensorSteps<T, layout, Tile>::y_vector>(problem, operands, Tile::n, Tile::r, Tile::j);
    return launch<T>(kernel, task, Tile::threads, TensorShared<layout, Tile>::bytes, stream);
  });
}

}  // namespace ksmm
