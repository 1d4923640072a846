// What a launch works on: the three operands as strided views, and how their tiles are numbered. Runs on host and
// device.
//
// Every operand is seen as [i][row][column][j]: X has rows n and columns k, W rows r and columns k, Y rows n and
// columns r.
#pragma once

#include <cstdint>

#include "../ks_matmul.h"
#include "number.cuh"

#define KSMM_BOTH __host__ __device__ inline

namespace ksmm {

// Keeps the compiler from computing what follows from `value` ahead of its use, and from holding it in registers.
KSMM_BOTH int64_t opaque(int64_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+l"(value));
#endif
  return value;
}

KSMM_BOTH int opaque(int value) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(value));
#endif
  return value;
}

struct Strides {
  int64_t i, row, column, j;  // in elements
};

// Where in a tile an element is, and how much of the tile lies inside the operand.
struct Place {
  int row, column, j;
};

KSMM_BOTH bool inside(const Place& place, const Place& limits) {
  return place.row < limits.row && place.column < limits.column && place.j < limits.j;
}

KSMM_BOTH int64_t offset(const Place& place, const Strides& strides) {
  return place.row * strides.row + place.column * strides.column + place.j * strides.j;
}

// The V neighbours of a vector lie along rows, along columns, or along (column, j) flattened: along j where a tile has
// V consecutive j or more, else along memory in which j varies first and then the column (d = J).
enum class Along { rows, columns, features };

template <class T>
struct Task {
  const Bits<T>* x;
  const Bits<T>* weight;
  const Bits<T>* bias;  // [i][r][j], or null
  Bits<T>* y;
  Strides x_strides, weight_strides, y_strides;
  int64_t a, b, c, d, batch;
  int64_t tiles_r, tiles_j, tiles_n, tiles;   // tiles = a * tiles_n * tiles_j * tiles_r
  bool x_vectors, weight_vectors, y_vectors;  // whether whole vectors may be read and written at once
  bool weight_along_columns;                  // else along features
};

// The first element of a tile. r varies first, so that blocks running side by side read the same X; then j, whose
// neighbours share lines of memory in batch_first; i last, so that the weights in use are few.
struct Origin {
  int64_t i, n, r, j;
};

template <class Index, class T>
KSMM_BOTH Origin tile_origin_as(const Task<T>& task, Index tile, int tile_n, int tile_r, int tile_j) {
  const Index tiles_r = static_cast<Index>(task.tiles_r), tiles_j = static_cast<Index>(task.tiles_j);
  const Index tiles_n = static_cast<Index>(task.tiles_n);
  Origin origin;
  origin.r = static_cast<int64_t>(tile % tiles_r) * tile_r;
  tile /= tiles_r;
  origin.j = static_cast<int64_t>(tile % tiles_j) * tile_j;
  tile /= tiles_j;
  origin.n = static_cast<int64_t>(tile % tiles_n) * tile_n;
  origin.i = static_cast<int64_t>(tile / tiles_n);
  return origin;
}

// Divisions of 64 bits are many times slower than those of 32, which nearly always suffice.
template <class T>
KSMM_BOTH Origin tile_origin(const Task<T>& task, int64_t tile, int tile_n, int tile_r, int tile_j) {
  if (task.tiles <= UINT32_MAX) return tile_origin_as(task, static_cast<uint32_t>(tile), tile_n, tile_r, tile_j);
  return tile_origin_as(task, static_cast<uint64_t>(tile), tile_n, tile_r, tile_j);
}

// What is added to the sums of one (i, r, j), where there is a bias; 0 outside Y.
template <class T>
KSMM_BOTH float bias_at(const Task<T>& task, int64_t i, int64_t r, int64_t j) {
  return r < task.b && j < task.d ? to_float<T>(read_only(task.bias + (i * task.b + r) * task.d + j)) : 0.f;
}

// How many of `size` elements are left at `start`, at most `tile`.
KSMM_BOTH int left(int64_t size, int64_t start, int tile) {
  const int64_t rest = size - start;
  return rest < tile ? static_cast<int>(rest) : tile;
}

// Whether every vector of an operand that starts at a multiple of V along `along` is contiguous and aligned.
//
// extents: how often each stride is taken; a stride that is never taken does not matter.
template <class T, int V>
inline bool has_vectors(const void* data, const Strides& strides, const Strides& extents, Along along, int tile_j) {
  if (reinterpret_cast<uintptr_t>(data) % sizeof(Vector<T, V>) != 0) return false;
  const auto keeps_alignment = [](int64_t stride, int64_t extent) { return extent <= 1 || stride % V == 0; };
  const bool i = keeps_alignment(strides.i, extents.i), row = keeps_alignment(strides.row, extents.row);
  const bool column = keeps_alignment(strides.column, extents.column), j = keeps_alignment(strides.j, extents.j);
  if (along == Along::rows) return strides.row == 1 && i && column && j;
  if (along == Along::columns) return strides.column == 1 && i && row && j;
  if (tile_j >= V) return strides.j == 1 && i && row && column;
  return extents.j == tile_j && strides.column == tile_j && (tile_j == 1 || strides.j == 1) && i && row;
}

// V: elements of the vectors that X and W are read in; Y_V, of those that Y is written in.
template <class T, int V, int Y_V>
Task<T> make_task(const Problem& problem, const Operands& operands, int tile_n, int tile_r, int tile_j) {
  const auto [a, b, c, d, batch, dtype, layout, precision] = problem;
  const bool first = layout == Layout::batch_first;
  const int64_t step = first ? 1 : operands.x_stride, y_step = first ? 1 : batch;
  const int64_t* strides = operands.weight_strides;
  const auto tiles = [](int64_t size, int tile) { return (size + tile - 1) / tile; };

  Task<T> task;
  task.x = static_cast<const Bits<T>*>(operands.x);
  task.weight = static_cast<const Bits<T>*>(operands.weight);
  task.bias = static_cast<const Bits<T>*>(operands.bias);
  task.y = static_cast<Bits<T>*>(operands.y);
  task.x_strides = {c * d * step, first ? operands.x_stride : 1, d * step, step};
  task.y_strides = {b * d * y_step, first ? a * b * d : 1, d * y_step, y_step};
  task.weight_strides = {strides[0], strides[1], strides[2], strides[3]};
  task.a = a, task.b = b, task.c = c, task.d = d, task.batch = batch;
  task.tiles_r = tiles(b, tile_r), task.tiles_j = tiles(d, tile_j), task.tiles_n = tiles(batch, tile_n);
  task.tiles = a * task.tiles_n * task.tiles_j * task.tiles_r;

  const Along along = first ? Along::features : Along::rows;
  task.x_vectors = has_vectors<T, V>(task.x, task.x_strides, {a, batch, c, d}, along, tile_j);
  task.y_vectors = has_vectors<T, Y_V>(task.y, task.y_strides, {a, batch, b, d}, along, tile_j);
  task.weight_along_columns = strides[2] == 1 || strides[3] != 1;
  task.weight_vectors = has_vectors<T, V>(task.weight, task.weight_strides, {a, b, c, d},
                                          task.weight_along_columns ? Along::columns : Along::features, tile_j);
  return task;
}

}  // namespace ksmm
