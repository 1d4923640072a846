// Launching the shifted kernel for one number format. Host code.
#pragma once

#include <algorithm>

#include "gemm_launch.cuh"
#include "shifted.h"
#include "shifted_kernel.cuh"

namespace ksmm::hopper {

// Calls run(tile) with the type of the tile; run returns the same for each.
template <class Run>
auto with_shifted_tile(ShiftedSize size, Run run) {
  if (size.columns == 192) return run(ShiftedTile<192, 3>());
  if (size.columns == 128) return run(ShiftedTile<128, 4>());
  return size.rows == 256 ? run(ShiftedTile<64, 4>()) : run(ShiftedTile<64, 2>());
}

// Boxes of `width` columns by `height` features. The long rows end with the last of their rows.
inline cudaError_t describe_shifted(CUtensorMap* map, ShiftedRows* rows, const GemmView& view, const void* data,
                                    int64_t stride, int64_t features, int unit, int width, int height) {
  const int64_t d = view.groups_j, period = shifted_period(stride, unit), classes = shifted_classes(stride, d, unit);
  rows->data = static_cast<uint16_t*>(const_cast<void*>(data)), rows->stride = stride;
  rows->features = static_cast<int>(features), rows->unit = unit;
  for (rows->class_bits = 0; 1 << rows->class_bits < classes;) ++rows->class_bits;
  for (rows->period_bits = 0; 1 << rows->period_bits < period;) ++rows->period_bits;
  const auto address = reinterpret_cast<uintptr_t>(data);
  const int64_t columns = static_cast<int64_t>(address / 2 % 8) + (period - 1) * stride + view.rows;
  const TensorBox box = {4,
                         {columns, features / classes, classes * d / period, view.groups_i},
                         {1, classes * d * stride, period * stride, features * d * stride},
                         {width, static_cast<int>(height / classes), 1, 1}};
  return describe_tensor(map, reinterpret_cast<void*>(address / 16 * 16), view.dtype, box, 0);
}

template <class T, class Tile>
cudaError_t launch_shifted_tile(const GemmView& view, const Machine& machine, cudaStream_t stream) {
  ShiftedTask task;
  cudaError_t error = describe_tensor(&task.weight, view.weight, view.dtype, gemm_weight(view, Tile::columns), 128);
  const int64_t stride = view.x_strides.j, classes = shifted_classes(stride, view.groups_j, 8);
  const int width = Tile::pitch(classes == 8 ? 3 : classes == 4 ? 2 : classes == 2 ? 1 : 0) / 2;
  if (error == cudaSuccess)
    error = describe_shifted(&task.x, &task.rows_of_x, view, view.x, stride, view.c, 8, width, gemm_step);
  if (error == cudaSuccess)
    error = describe_shifted(&task.y, &task.rows_of_y, view, view.y, view.rows, view.b,
                             shifted_unit_of_y(view.rows, view.groups_j, view.b), Tile::step, Tile::part);
  if (error != cudaSuccess) return error;
  task.bias = view.bias, task.batch = view.rows;
  task.b = static_cast<int>(view.b), task.groups_j = static_cast<int>(view.groups_j);
  task.row_tiles = static_cast<int>(view.rows <= Tile::rows ? 1 : parts_of(view.rows, Tile::step));
  task.last = static_cast<int>((view.rows - Tile::rows + 7) / 8 * 8);
  task.before_last = static_cast<int>((view.rows - Tile::rows) / 16 * 16);
  task.column_tiles = static_cast<int>((view.b + Tile::columns - 1) / Tile::columns);
  task.tiles = static_cast<int>(task.row_tiles * task.column_tiles * view.groups_i * view.groups_j);
  task.by_column_tiles = Divisor(task.column_tiles), task.by_row_tiles = Divisor(task.row_tiles);
  task.by_d = Divisor(task.groups_j);
  task.stages = Tile::stages(task.rows_of_x.class_bits);
  return launch_overlapping(shifted_kernel<T, Tile>, std::min(task.tiles, Tile::blocks * machine.multiprocessors),
                            Tile::threads, Tile::shared_bytes(task.rows_of_x.class_bits, task.stages), 1, stream, task);
}

template <class T>
cudaError_t launch_shifted_of(const GemmView& view, ShiftedSize size, const Machine& machine, cudaStream_t stream) {
  return with_shifted_tile(size,
                           [&](auto tile) { return launch_shifted_tile<T, decltype(tile)>(view, machine, stream); });
}

}  // namespace ksmm::hopper
