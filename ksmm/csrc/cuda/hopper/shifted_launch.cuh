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

// Fills *rows; the tensor in boxes of `width` columns by `height` features, from the multiple of 16 bytes before the
// data on. Its rows end with the last of the rows that they have.
inline TensorBox box_of_shifted(ShiftedRows* rows, const GemmView& view, const void* data, int64_t stride,
                                int64_t features, int unit, int height) {
  const int64_t d = view.groups_j, period = shifted_period(stride, unit), classes = shifted_classes(stride, d, unit);
  rows->data = static_cast<uint16_t*>(const_cast<void*>(data)), rows->stride = stride;
  rows->features = static_cast<int>(features), rows->unit = unit;
  for (rows->class_bits = 0; 1 << rows->class_bits < classes;) ++rows->class_bits;
  for (rows->period_bits = 0; 1 << rows->period_bits < period;) ++rows->period_bits;
  const auto before = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) / 2 % 8);
  return {4,
          {before + (period - 1) * stride + view.rows, features / classes, classes * d / period, view.groups_i},
          {1, classes * d * stride, period * stride, features * d * stride},
          {0, static_cast<int>(height / classes), 1, 1}};
}

// What a launch is told, but for the tensors, whose boxes are filled.
template <class Tile>
ShiftedTask task_of_shifted(const GemmView& view, TensorBox* x, TensorBox* y) {
  ShiftedTask task;
  *x = box_of_shifted(&task.rows_of_x, view, view.x, view.x_strides.j, view.c, 8, gemm_step);
  *y = box_of_shifted(&task.rows_of_y, view, view.y, view.rows, view.b,
                      shifted_unit_of_y(view.rows, view.groups_j, view.b), Tile::part);
  x->box[0] = Tile::pitch(task.rows_of_x.class_bits) / 2, y->box[0] = Tile::step;
  task.bias = view.bias, task.batch = view.rows;
  task.b = static_cast<int>(view.b), task.groups_j = static_cast<int>(view.groups_j);
  task.row_tiles = static_cast<int>(view.rows <= Tile::rows ? 1 : parts_of(view.rows, Tile::step));
  task.last = static_cast<int>((view.rows - Tile::rows + 7) / 8 * 8);
  task.before_last = static_cast<int>((view.rows - Tile::rows) / 16 * 16);
  task.column_tiles = static_cast<int>(parts_of(view.b, Tile::columns));
  task.tiles = static_cast<int>(task.row_tiles * task.column_tiles * view.groups_i * view.groups_j);
  task.by_column_tiles = Divisor(task.column_tiles), task.by_row_tiles = Divisor(task.row_tiles);
  task.by_d = Divisor(task.groups_j);
  task.stages = Tile::stages(task.rows_of_x.class_bits);
  return task;
}

template <class T, class Tile>
cudaError_t launch_shifted_tile(const GemmView& view, const Machine& machine, cudaStream_t stream) {
  TensorBox x, y;
  ShiftedTask task = task_of_shifted<Tile>(view, &x, &y);
  const auto describe = [&](CUtensorMap* map, const ShiftedRows& rows, const TensorBox& box) {
    void* const begin = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(rows.data) / 16 * 16);
    return describe_tensor(map, begin, view.dtype, box, 0);
  };
  cudaError_t error = describe_tensor(&task.weight, view.weight, view.dtype, gemm_weight(view, Tile::columns), 128);
  if (error == cudaSuccess) error = describe(&task.x, task.rows_of_x, x);
  if (error == cudaSuccess) error = describe(&task.y, task.rows_of_y, y);
  if (error != cudaSuccess) return error;
  return launch_overlapping(shifted_kernel<T, Tile>, std::min(task.tiles, Tile::blocks * machine.multiprocessors),
                            Tile::threads, Tile::shared_bytes(task.rows_of_x.class_bits, task.stages), 1, stream, task);
}

template <class T>
cudaError_t launch_shifted_of(const GemmView& view, ShiftedSize size, const Machine& machine, cudaStream_t stream) {
  return with_shifted_tile(size,
                           [&](auto tile) { return launch_shifted_tile<T, decltype(tile)>(view, machine, stream); });
}

}  // namespace ksmm::hopper
