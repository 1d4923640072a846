// Launching the exchange kernels of one number format. Host code.
#pragma once

#include <algorithm>

#include "exchange.h"
#include "exchange_kernel.cuh"
#include "gemm_launch.cuh"
#include "regroup_kernel.cuh"

namespace ksmm::hopper {

// What of W the L2 cache keeps beside X and Y, in bytes.
inline bool weight_is_cached(const GemmView& view) { return 2 * view.b * view.c * view.groups_j < 10'000'000; }

// How many tiles of n a group of j takes before the next one: several where W does not stay in the L2 cache, but as few
// as leave lines of Y there until all groups of a line have written to them.
inline int near_rows(const GemmView& view, int column_tiles) {
  constexpr int most_tiles = 8;
  return weight_is_cached(view) ? 1 : std::max(1, most_tiles / column_tiles);
}

// As many operands and steps of W as there is room for.
template <int COLUMNS>
using RegroupOf = RegroupTile<COLUMNS, COLUMNS == 64 ? 4 : 3, COLUMNS == 128 ? 2 : 3, COLUMNS == 64 ? 3 : 2>;

// Calls run(tile) with the type of the tile; run returns the same for each.
template <class Run>
auto with_exchange_tile(ExchangeShape shape, Run run) {
  if (shape.source == ExchangeSource::interleaved) {
    if (shape.columns == 64) return run(RegroupOf<64>());
    if (shape.columns == 96) return run(RegroupOf<96>());
    return run(RegroupOf<128>());
  }
  if (shape.group == 24) return run(ExchangeTile<64, 3>());
  if (shape.columns == 64) return run(ExchangeTile<64, 2>());
  if (shape.columns == 96) return run(ExchangeTile<96, 2>());
  return run(ExchangeTile<128, 2>());
}

inline TensorBox exchange_x(const GemmView& view, ExchangeSource source) {
  if (source == ExchangeSource::planes) return gemm_rows_by_features(view, view.x_strides, view.c);
  return {4,
          {view.groups_j, view.c, view.groups_i, view.rows},
          {1, view.x_strides.features, view.x_strides.i, view.x_strides.rows},
          {16, gemm_step, 1, RegroupOf<64>::own_rows}};
}

template <class Tile>
cudaError_t describe_exchange(ExchangeTask* task, const GemmView& view, ExchangeSource source) {
  const int64_t d = view.groups_j;
  cudaError_t error = describe_tensor(&task->gemm.x, view.x, view.dtype, exchange_x(view, source),
                                      source == ExchangeSource::planes ? 128 : 0);
  if (error == cudaSuccess)
    error = describe_tensor(&task->gemm.weight, view.weight, view.dtype, gemm_weight(view, Tile::columns), 128);
  task->gemm.bias = view.bias;
  task->gemm.b = static_cast<int>(view.b), task->gemm.groups_j = static_cast<int>(d);
  task->gemm.k_steps = static_cast<int>(parts_of(view.c, gemm_step));
  task->gemm.row_tiles = static_cast<int>(parts_of(view.rows, Tile::rows));
  task->gemm.column_tiles = static_cast<int>(parts_of(view.b, Tile::columns));
  task->groups = static_cast<int>(d / Tile::group);
  task->gemm.tiles = static_cast<int>(view.groups_i * task->gemm.row_tiles * task->gemm.column_tiles * task->groups);
  task->y = static_cast<uint16_t*>(view.y), task->y_row = view.groups_i * view.b * d;
  task->rows = static_cast<int>(view.rows);
  task->near_rows = near_rows(view, task->gemm.column_tiles);
  return error;
}

template <class T, int COLUMNS, int PLANES>
auto kernel_of(ExchangeTile<COLUMNS, PLANES>) {
  return exchange_kernel<T, ExchangeTile<COLUMNS, PLANES>>;
}
template <class T, int COLUMNS, int RAWS, int OPERANDS, int WEIGHTS>
auto kernel_of(RegroupTile<COLUMNS, RAWS, OPERANDS, WEIGHTS>) {
  return regroup_kernel<T, RegroupTile<COLUMNS, RAWS, OPERANDS, WEIGHTS>>;
}

template <class T>
cudaError_t launch_exchange_of(const GemmView& view, ExchangeShape shape, const Machine& machine, cudaStream_t stream) {
  return with_exchange_tile(shape, [&](auto tile) {
    using Tile = decltype(tile);
    ExchangeTask task;
    const cudaError_t error = describe_exchange<Tile>(&task, view, shape.source);
    if (error != cudaSuccess) return error;
    const int clusters = task.gemm.tiles < machine.octets ? task.gemm.tiles : machine.octets;
    return launch_overlapping(kernel_of<T>(tile), exchange_cluster * clusters, Tile::threads, Tile::shared_bytes,
                              exchange_cluster, stream, task);
  });
}

cudaError_t launch_exchange_float16(const GemmView& view, ExchangeShape shape, const Machine& machine,
                                    cudaStream_t stream);
cudaError_t launch_exchange_bfloat16(const GemmView& view, ExchangeShape shape, const Machine& machine,
                                     cudaStream_t stream);

}  // namespace ksmm::hopper
