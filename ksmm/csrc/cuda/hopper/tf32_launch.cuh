// From a problem and its operands to a launch of a kernel of the TF32 family. Host code.
#pragma once

#include <algorithm>
#include <tuple>

#include "../configuration.h"
#include "overlap.cuh"
#include "tensor_map.h"
#include "tf32_kernel.cuh"

namespace ksmm::hopper {

// After how many rows of X shifts repeat (tf32_shifted.cuh), the stride being that of rows.
inline int64_t period_of(int64_t stride) { return stride % 4 == 0 ? 1 : stride % 2 == 0 ? 2 : 4; }

// Where the tensor X begins for the copy engine: at a multiple of 16 bytes, also where rows begin anywhere.
template <class Tile>
const void* begin_of_x(const Operands& operands) {
  if constexpr (Tile::access != Access::shifted) return operands.x;
  return static_cast<const float*>(operands.x) - shift_of(static_cast<const float*>(operands.x));
}

// X as the copy engine sees it: the fastest dimension first.
template <class Tile>
TensorBox box_of_x(const Problem& problem, const Operands& operands) {
  const auto& [a, b, c, d] = std::tie(problem.a, problem.b, problem.c, problem.d);
  const int64_t x_stride = operands.x_stride, period = period_of(x_stride);
  constexpr int batch = Tile::batch;
  if constexpr (Tile::access == Access::rows)
    return {4, {problem.batch, d, c, a}, {1, x_stride, d * x_stride, c * d * x_stride}, {32, 1, Tile::k, 1}};
  else if constexpr (Tile::access == Access::shifted)
    return {4,
            {shift_of(static_cast<const float*>(operands.x)) + (period - 1) * x_stride + problem.batch,
             c / shifted_classes, shifted_classes * d / period, a},
            {1, shifted_classes * d * x_stride, period * x_stride, c * d * x_stride},
            {shifted_pitch, Tile::k / shifted_classes, 1, 1}};
  else if constexpr (Tile::access == Access::runs)
    return {3, {c * d, a, problem.batch}, {1, c * d, x_stride}, {32, 1, batch}};
  else
    return {4, {d, c, a, problem.batch}, {1, d, c * d, x_stride}, {8, 4, 1, batch}};
}

// Y of batch_first, as it is stored.
template <class Tile>
TensorBox box_of_y(const Problem& problem) {
  const auto& [a, b, c, d] = std::tie(problem.a, problem.b, problem.c, problem.d);
  if constexpr (Tile::planes == 8)
    return {4, {d, b, a, problem.batch}, {1, d, b * d, a * b * d}, {8, 8, 1, 8}};
  else
    return {3, {b * d, a, problem.batch}, {1, b * d, a * b * d}, {Tile::y_columns * Tile::planes, 1, 16}};
}

template <class Tile>
TensorBox box_of_weight(const Problem& problem, const int64_t (&strides)[4]) {
  return {4,
          {problem.c, problem.b, problem.d, problem.a},
          {1, strides[1], strides[3], strides[0]},
          {Tile::k, Tile::rows, Tile::planes, 1}};
}

template <class Tile>
Tf32Task task_of(const Problem& problem, const Operands& operands) {
  const auto tiles = [](int64_t size, int64_t tile) { return static_cast<int>((size + tile - 1) / tile); };
  const auto& [a, b, c, d] = std::tie(problem.a, problem.b, problem.c, problem.d);
  Tf32Task task = {};
  task.x_data = static_cast<const float*>(operands.x), task.weight_data = static_cast<const float*>(operands.weight);
  task.bias = static_cast<const float*>(operands.bias), task.y_data = static_cast<float*>(operands.y);
  const int64_t outer = operands.x_stride;
  const bool last = problem.layout == Layout::batch_last;
  const int64_t x_strides[4] = {last ? 1 : outer, c * d * (last ? outer : 1), d * (last ? outer : 1), last ? outer : 1};
  const int64_t* const weight = operands.weight_strides;
  const int64_t weight_strides[4] = {weight[0], weight[1], weight[2], weight[3]};
  for (int n = 0; n < 4; ++n) task.x_strides[n] = x_strides[n], task.weight_strides[n] = weight_strides[n];
  task.x_period = static_cast<int>(period_of(outer));
  task.batch = problem.batch;
  task.a = static_cast<int>(a), task.b = static_cast<int>(b), task.c = static_cast<int>(c);
  task.d = static_cast<int>(d);
  task.row_tiles = tiles(b, Tile::rows), task.batch_tiles = tiles(problem.batch, Tile::batch);
  task.plane_tiles = tiles(d, Tile::planes);
  task.tiles = task.row_tiles * task.batch_tiles * task.plane_tiles * task.a;
  task.whole_vectors = b * d % 4 == 0;
  return task;
}

// halves: of W, null but for W as halves and for the tiles that such a product leaves out, whose launches follow each
// other closely and leave the multiprocessors alone that are not theirs.
template <class Tile>
cudaError_t launch_tile(const Problem& problem, const Operands& operands, const Machine& machine, cudaStream_t stream,
                        const HalvesOfWeight& halves = {}) {
  Tf32Task task = task_of<Tile>(problem, operands);
  task.halves = halves;
  constexpr int x_swizzle = Tile::access == Access::sectors ? 32 : Tile::access == Access::shifted ? 0 : 128;
  cudaError_t error = describe_tensor(&task.x, begin_of_x<Tile>(operands), Dtype::float32,
                                      box_of_x<Tile>(problem, operands), x_swizzle);
  if (error == cudaSuccess && !Tile::in_halves)
    error = describe_tensor(&task.weight, operands.weight, Dtype::float32,
                            box_of_weight<Tile>(problem, operands.weight_strides), Tile::k * 4);
  if (error == cudaSuccess && Tile::staged && task.whole_vectors)
    error = describe_tensor(&task.y, operands.y, Dtype::float32, box_of_y<Tile>(problem), Tile::y_row_bytes);
  if (error != cudaSuccess) return error;
  const bool begins_early = halves.left == nullptr || !machine.is_part;
  return launch_waiting(begins_early, multiply_tf32<Tile>, std::min(task.tiles, machine.multiprocessors), Tile::threads,
                        Tile::shared_bytes, 1, stream, task);
}

}  // namespace ksmm::hopper
