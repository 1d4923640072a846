// Launching the shifted kernel for one number format. Host code.
#pragma once

#include <algorithm>

#include "gemm_launch.cuh"
#include "shifted.h"
#include "shifted_kernel.cuh"
#include "shifted_single.cuh"

namespace ksmm::hopper {

// Calls run(tile) with the type of the tile; run returns the same for each.
template <class Run>
auto with_shifted_tile(ShiftedSize size, Run run) {
  if (size.columns == 256) return run(ShiftedTile<256, 2>());
  if (size.columns == 192) return run(ShiftedTile<192, 3>());
  if (size.columns == 128) return run(ShiftedTile<128, 4>());
  return size.rows == 256 ? run(ShiftedTile<64, 4>()) : run(ShiftedTile<64, 2>());
}

// The same for blocks of one tile.
template <class Run>
auto with_shifted_single(int columns, Run run) {
  if (columns == 192) return run(ShiftedSingleTile<3>());
  return columns == 128 ? run(ShiftedSingleTile<2>()) : run(ShiftedSingleTile<1>());
}

inline ShiftedRows shifted_rows(const GemmView& view, const void* data, int64_t stride, int64_t features, int unit) {
  ShiftedRows rows;
  rows.data = static_cast<uint16_t*>(const_cast<void*>(data)), rows.stride = stride;
  rows.features = static_cast<int>(features), rows.unit = unit;
  for (rows.class_bits = 0; 1 << rows.class_bits < shifted_classes(stride, view.groups_j, unit);) ++rows.class_bits;
  for (rows.period_bits = 0; 1 << rows.period_bits < shifted_period(stride, unit);) ++rows.period_bits;
  return rows;
}

// The tensor of those rows in boxes of `height` features, from the multiple of 16 bytes before the data on. Its rows
// end with the last of the rows that they have.
inline TensorBox box_of_shifted(const ShiftedRows& rows, const GemmView& view, int height) {
  const int64_t d = view.groups_j, period = int64_t{1} << rows.period_bits, classes = int64_t{1} << rows.class_bits;
  const auto before = static_cast<int64_t>(reinterpret_cast<uintptr_t>(rows.data) / 2 % 8);
  return {
      4,
      {before + (period - 1) * rows.stride + view.rows, rows.features / classes, classes * d / period, view.groups_i},
      {1, classes * d * rows.stride, period * rows.stride, rows.features * d * rows.stride},
      {0, static_cast<int>(height / classes), 1, 1}};
}

// What a launch is told but for tensors, and for where tiles of n begin. Shifts of Y are counted from multiples of
// `unit_of_y` numbers.
template <class Tile>
ShiftedTask sizes_of_shifted(const GemmView& view, int64_t row_tiles, int unit_of_y) {
  ShiftedTask task;
  task.rows_of_x = shifted_rows(view, view.x, view.x_strides.j, view.c, 8);
  task.rows_of_y = shifted_rows(view, view.y, view.rows, view.b, unit_of_y);
  task.bias = view.bias, task.batch = view.rows;
  task.b = static_cast<int>(view.b), task.groups_j = static_cast<int>(view.groups_j);
  task.k_steps = static_cast<int>(parts_of(view.c, gemm_step));
  task.row_tiles = static_cast<int>(row_tiles);
  task.column_tiles = static_cast<int>(parts_of(view.b, Tile::block_columns));
  task.tiles = static_cast<int>(task.row_tiles * task.column_tiles * view.groups_i * view.groups_j);
  task.by_column_tiles = Divisor(task.column_tiles), task.by_row_tiles = Divisor(task.row_tiles);
  task.by_d = Divisor(task.groups_j);
  return task;
}

// What a launch is told, but for the tensors, whose boxes are filled.
template <class Tile>
ShiftedTask task_of_shifted(const GemmView& view, TensorBox* x, TensorBox* y) {
  ShiftedTask task = sizes_of_shifted<Tile>(view, view.rows <= Tile::rows ? 1 : parts_of(view.rows, Tile::step),
                                            shifted_unit_of_y(view.rows, view.groups_j, view.b));
  *x = box_of_shifted(task.rows_of_x, view, gemm_step), *y = box_of_shifted(task.rows_of_y, view, Tile::part);
  x->box[0] = Tile::pitch(task.rows_of_x.class_bits) / 2, y->box[0] = Tile::step;
  task.last = static_cast<int>((view.rows - Tile::rows + 7) / 8 * 8);
  task.before_last = static_cast<int>((view.rows - Tile::rows) / 16 * 16);
  task.stages = Tile::stages(task.rows_of_x.class_bits);
  return task;
}

// The same for blocks of one tile, which write Y without a tensor.
template <class Tile>
ShiftedTask task_of_shifted_single(const GemmView& view, TensorBox* x) {
  ShiftedTask task = sizes_of_shifted<Tile>(view, parts_of(view.rows, Tile::step), 8);
  *x = box_of_shifted(task.rows_of_x, view, gemm_step);
  x->box[0] = Tile::pitch(task.rows_of_x.class_bits) / 2;
  task.last = task.before_last = (task.row_tiles - 1) * Tile::step;
  return task;
}

// Describes the rows, from the multiple of 16 bytes before the first of them on.
inline cudaError_t describe_shifted(CUtensorMap* map, const GemmView& view, const ShiftedRows& rows,
                                    const TensorBox& box) {
  void* const begin = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(rows.data) / 16 * 16);
  return describe_tensor(map, begin, view.dtype, box, 0);
}

template <class T, class Tile>
cudaError_t launch_shifted_tile(const GemmView& view, const Machine& machine, cudaStream_t stream) {
  TensorBox x, y;
  ShiftedTask task = task_of_shifted<Tile>(view, &x, &y);
  cudaError_t error = describe_tensor(&task.weight, view.weight, view.dtype, gemm_weight(view, Tile::columns), 128);
  if (error == cudaSuccess) error = describe_shifted(&task.x, view, task.rows_of_x, x);
  if (error == cudaSuccess) error = describe_shifted(&task.y, view, task.rows_of_y, y);
  if (error != cudaSuccess) return error;
  return launch_overlapping(shifted_kernel<T, Tile>, std::min(task.tiles, Tile::blocks * machine.multiprocessors),
                            Tile::threads, Tile::shared_bytes(task.rows_of_x.class_bits, task.stages), 1, stream, task);
}

template <class T, class Tile>
cudaError_t launch_shifted_single_tile(const GemmView& view, cudaStream_t stream) {
  TensorBox x;
  ShiftedTask task = task_of_shifted_single<Tile>(view, &x);
  cudaError_t error =
      describe_tensor(&task.weight, view.weight, view.dtype, gemm_weight(view, Tile::block_columns), 128);
  if (error == cudaSuccess) error = describe_shifted(&task.x, view, task.rows_of_x, x);
  if (error != cudaSuccess) return error;
  return launch_overlapping(shifted_single_kernel<T, Tile>, task.tiles, Tile::threads,
                            Tile::shared_bytes(task.rows_of_x.class_bits, task.k_steps), 1, stream, task);
}

template <class T>
cudaError_t launch_shifted_single_of(const GemmView& view, int columns, cudaStream_t stream) {
  return with_shifted_single(columns,
                             [&](auto tile) { return launch_shifted_single_tile<T, decltype(tile)>(view, stream); });
}

template <class T>
cudaError_t launch_shifted_of(const GemmView& view, ShiftedSize size, const Machine& machine, cudaStream_t stream) {
  return with_shifted_tile(size,
                           [&](auto tile) { return launch_shifted_tile<T, decltype(tile)>(view, machine, stream); });
}

}  // namespace ksmm::hopper
