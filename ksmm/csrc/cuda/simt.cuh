// Launches the SIMT kernel; instantiated in a file for each dtype, so that the dtypes compile side by side.
#pragma once

#include "launch.cuh"
#include "simt_family.cuh"
#include "simt_kernel.cuh"

namespace ksmm {

// Enqueues the product; returns the launch's error.
template <class T>
cudaError_t multiply_simt(const Problem& problem, const Operands& operands, cudaStream_t stream);
template <>
cudaError_t multiply_simt<float16>(const Problem& problem, const Operands& operands, cudaStream_t stream);
template <>
cudaError_t multiply_simt<bfloat16>(const Problem& problem, const Operands& operands, cudaStream_t stream);

template <class T>
cudaError_t launch_simt(const Problem& problem, const Operands& operands, cudaStream_t stream) {
  return with_simt_tile<T>(problem, [&](auto choice) {
    using Tile = typename decltype(choice)::Tile;
    const Task<T> task = make_task<T, 4, 4>(problem, operands, Tile::n, Tile::r, Tile::j);
    return launch<T>(simt_kernel<T, decltype(choice)::layout, Tile>, task, Tile::threads, 0, stream);
  });
}

}  // namespace ksmm
