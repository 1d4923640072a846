// Launches the matrix-unit kernel; instantiated in a file for each dtype, so that the dtypes compile side by side.
#pragma once

#include "configuration.h"
#include "launch.cuh"
#include "simt.cuh"
#include "tensor_family.cuh"

namespace ksmm {

// Enqueues the product, with the SIMT kernel where the matrix units cannot be used; returns the launch's error.
template <class T>
cudaError_t multiply_tensor(const Problem& problem, const Operands& operands, const Machine& machine,
                            cudaStream_t stream);
template <>
cudaError_t multiply_tensor<float16>(const Problem& problem, const Operands& operands, const Machine& machine,
                                     cudaStream_t stream);
template <>
cudaError_t multiply_tensor<bfloat16>(const Problem& problem, const Operands& operands, const Machine& machine,
                                      cudaStream_t stream);

// Whether the code that runs on the current device was compiled for compute capability 8.0 or newer; below, the kernel
// is empty. The device alone does not tell: a newer one may be running translated code of an older one.
inline cudaError_t has_matrix_units(const void* kernel, bool* yes) {
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  *yes = error == cudaSuccess && attributes.ptxVersion >= 80;
  return error;
}

// As many blocks as run at once, each of which takes several tiles.
template <class T, Layout LAYOUT, class Tile>
cudaError_t launch_resident(const TensorTask<T>& task, const Machine& machine, cudaStream_t stream) {
  const int64_t room = static_cast<int64_t>(machine.multiprocessors) * Tile::blocks_per_multiprocessor;
  return launch_blocks(tensor_kernel<T, LAYOUT, Tile>, task.tiles < room ? task.tiles : room, Tile::threads,
                       TensorShared<LAYOUT, Tile>::bytes, stream, task);
}

template <class T>
cudaError_t launch_tensor(const Problem& problem, const Operands& operands, const Machine& machine,
                          cudaStream_t stream) {
  return with_tensor_tile(problem, machine.shared_limit, [&](auto choice) {
    using Tile = typename decltype(choice)::Tile;
    constexpr Layout layout = decltype(choice)::layout;
    const auto kernel = tensor_kernel<T, layout, Tile>;
    bool usable = false;
    const cudaError_t error = has_matrix_units(reinterpret_cast<const void*>(kernel), &usable);
    if (error != cudaSuccess) {
      cudaGetLastError();
      return error;
    }
    if (!usable) return multiply_simt<T>(problem, operands, stream);
    constexpr int y_vector = TensorStore<T, layout, Tile>::y_vector;
    return launch_resident<T, layout, Tile>(
        TensorCopy<T, layout, Tile>::template make_tensor_task<y_vector>(problem, operands), machine, stream);
  });
}

}  // namespace ksmm
