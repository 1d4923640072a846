// Launching the kernel for rows at any address. Host code.
#pragma once

#include "gemm_launch.cuh"
#include "unaligned.h"
#include "unaligned_kernel.cuh"

namespace ksmm::hopper {

template <class T>
cudaError_t launch_unaligned_of(const GemmView& view, const Machine& machine, cudaStream_t stream) {
  const auto run = [&](auto tile) {
    using Tile = decltype(tile);
    UnalignedTask task = {};
    const cudaError_t error =
        describe_tensor(&task.weight, view.weight, view.dtype, gemm_weight(view, Tile::columns), 128);
    if (error != cudaSuccess) return error;
    task.bias = view.bias;
    task.b = static_cast<int>(view.b), task.c = static_cast<int>(view.c), task.rows = static_cast<int>(view.rows);
    task.groups_j = static_cast<int>(view.groups_j), task.k_steps = static_cast<int>(parts_of(view.c, gemm_step));
    task.row_tiles = static_cast<int>(parts_of(view.rows, Tile::rows));
    task.column_tiles = static_cast<int>(parts_of(view.b, Tile::columns));
    task.tiles = static_cast<int>(task.row_tiles * task.column_tiles * view.groups_i * view.groups_j);
    task.x_rows = static_cast<const uint16_t*>(view.x), task.y_rows = static_cast<uint16_t*>(view.y);
    task.x_i = view.x_strides.i, task.x_j = view.x_strides.j, task.x_k = view.x_strides.features;
    task.y_i = view.y_strides.i, task.y_j = view.y_strides.j, task.y_r = view.y_strides.features;
    const int64_t features = view.groups_i * view.groups_j * view.c;
    task.x_end = task.x_rows + (features - 1) * task.x_j + view.rows;
    const int blocks = task.tiles < machine.multiprocessors ? task.tiles : machine.multiprocessors;
    return launch_overlapping(unaligned_kernel<T, Tile>, blocks, Tile::threads, Tile::shared_bytes, 1, stream, task);
  };
  return view.b <= 64 ? run(UnalignedTile<64, 7>()) : run(UnalignedTile<128, 6>());
}

}  // namespace ksmm::hopper
