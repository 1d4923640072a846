// Launches the SIMT kernel; instantiated in a file for each dtype, so that the dtypes compile side by side.
#pragma once

#include <cuda_runtime_api.h>

#include "simt_family.cuh"
#include "simt_kernel.cuh"

namespace ksmm {

// Enqueues the product; returns the launch's error.
template <class T>
cudaError_t multiply_simt(const Problem& problem, const Operands& operands, cudaStream_t stream);

// Blocks of a grid: one a tile, as far as the x dimension goes; the kernels then loop.
inline unsigned grid_size(int64_t tiles) {
  constexpr int64_t most_blocks = 2147483647;
  return static_cast<unsigned>(tiles < most_blocks ? tiles : most_blocks);
}

template <class T>
cudaError_t launch_simt(const Problem& problem, const Operands& operands, cudaStream_t stream) {
  return with_simt_tile<T>(problem, [&](auto choice) {
    using Tile = typename decltype(choice)::Tile;
    constexpr Layout layout = decltype(choice)::layout;
    const Task<T> task = make_task<T, 4, 4>(problem, operands, Tile::n, Tile::r, Tile::j);
    simt_kernel<T, layout, Tile><<<grid_size(task.tiles), Tile::threads, 0, stream>>>(task);
    return cudaGetLastError();
  });
}

}  // namespace ksmm
