// Launching the gemm kernels of one number format. Host code.
#pragma once

#include <algorithm>

#include "gemm.h"
#include "gemm_alternating.cuh"
#include "gemm_single.cuh"
#include "gemm_spread.cuh"
#include "gemm_streamed.cuh"
#include "overlap.cuh"
#include "tensor_map.h"

namespace ksmm::hopper {

// As many stages as there is room for: four of 256 columns leave room for a quarter of Y in the outlets, and three with
// more for Y measured slower.
template <int COLUMNS>
using StreamedOf = StreamedTile<COLUMNS,
                                COLUMNS <= 64    ? 7
                                : COLUMNS <= 128 ? 6
                                                 : 4,
                                2>;

// Calls run(tile) with the type of the tile; run returns the same for each.
template <class Run>
auto with_gemm_tile(GemmTile tile, Run run) {
  if (tile.hold == GemmHold::streamed) {
    switch (tile.columns) {
      case 64: return run(StreamedOf<64>());
      case 96: return run(StreamedOf<96>());
      case 128: return run(StreamedOf<128>());
      default: return run(StreamedOf<256>());
    }
  }
  if (tile.hold == GemmHold::alternating) {
    switch (tile.columns) {
      case 128: return run(AlternatingTile<128, 5, false>());
      default: return run(AlternatingTile<192, 4, false>());
    }
  }
  if (tile.hold == GemmHold::wide) {
    switch (tile.columns) {
      case 64: return run(AlternatingTile<64, 6, true>());
      case 96: return run(AlternatingTile<96, 6, true>());
      case 128: return run(AlternatingTile<128, 5, true>());
      default: return run(AlternatingTile<192, 4, true>());
    }
  }
  switch (tile.columns) {
    case 48: return run(SingleTile<48, 2>());
    case 64: return tile.blocks == 1 ? run(SingleTile<64, 1>()) : run(SingleTile<64, 2>());
    case 96: return tile.blocks == 1 ? run(SingleTile<96, 1>()) : run(SingleTile<96, 2>());
    case 128: return run(SingleTile<128, 1>());
    default: return run(SingleTile<192, 1>());
  }
}

// A tensor of X or Y in boxes of 64 along its contiguous dimension by `height` of the other.
inline TensorBox gemm_rows_by_features(const GemmView& view, const GemmStrides& strides, int64_t features,
                                       int height = 64) {
  if (view.rows_contiguous)
    return {4,
            {view.rows, view.groups_j, features, view.groups_i},
            {1, strides.j, strides.features, strides.i},
            {64, 1, height, 1}};
  return {4,
          {features, view.rows, view.groups_j, view.groups_i},
          {1, strides.rows, strides.j, strides.i},
          {64, height, 1, 1}};
}

inline TensorBox gemm_weight(const GemmView& view, int box_columns) {
  const int64_t* strides = view.weight_strides;
  return {4,
          {view.c, view.b, view.groups_j, view.groups_i},
          {1, strides[1], strides[3], strides[0]},
          {gemm_step, box_columns, 1, 1}};
}

// X, the bias and the sizes, which all gemm kernels are told.
inline cudaError_t describe_x(GemmTask* task, const GemmView& view) {
  task->bias = view.bias;
  task->b = static_cast<int>(view.b), task->groups_j = static_cast<int>(view.groups_j);
  task->k_steps = static_cast<int>((view.c + gemm_step - 1) / gemm_step);
  return describe_tensor(&task->x, view.x, view.dtype, gemm_rows_by_features(view, view.x_strides, view.c), 128);
}

// Y, in boxes of 64 along its contiguous dimension by `stored`.
inline cudaError_t describe_y(GemmTask* task, const GemmView& view, int stored = 64) {
  return describe_tensor(&task->y, view.y, view.dtype, gemm_rows_by_features(view, view.y_strides, view.b, stored),
                         128);
}

// X and W.
inline cudaError_t describe_operands(GemmTask* task, const GemmView& view, int box_columns) {
  const cudaError_t error = describe_x(task, view);
  if (error != cudaSuccess) return error;
  return describe_tensor(&task->weight, view.weight, view.dtype, gemm_weight(view, box_columns), 128);
}

// X, W and Y.
inline cudaError_t describe_gemm(GemmTask* task, const GemmView& view, int box_columns, int stored = 64) {
  const cudaError_t error = describe_operands(task, view, box_columns);
  return error == cudaSuccess ? describe_y(task, view, stored) : error;
}

// Y for WideOutlet, where n are contiguous: as runs of n, and whole. Rows of a box are as long as in shared memory.
struct WideBoxes {
  TensorBox runs, rows;
};
template <class Tile>
WideBoxes boxes_of_wide(const GemmView& view) {
  const GemmStrides& strides = view.y_strides;
  constexpr int row = Tile::pitch / 2;
  return {{5,
           {gemm_run, view.rows / gemm_run, view.groups_j, view.b, view.groups_i},
           {1, gemm_run, strides.j, strides.features, strides.i},
           {row, 1, 1, gemm_part, 1}},
          {4,
           {view.rows, view.groups_j, view.b, view.groups_i},
           {1, strides.j, strides.features, strides.i},
           {row, 1, gemm_part, 1}}};
}

template <class Tile>
cudaError_t describe_wide(WideTask* task, const GemmView& view) {
  cudaError_t error = describe_operands(task, view, Tile::columns / Tile::cluster);
  task->rows = static_cast<int>(view.rows);
  const WideBoxes boxes = boxes_of_wide<Tile>(view);
  if (error == cudaSuccess && view.rows >= gemm_run)
    error = describe_tensor(&task->y_runs, view.y, view.dtype, boxes.runs, 0);
  if (error == cudaSuccess && view.rows % gemm_run != 0)
    error = describe_tensor(&task->y, view.y, view.dtype, boxes.rows, 0);
  return error;
}

template <class Tile, int ROWS>
void count_tiles(GemmTask* task, const GemmView& view) {
  task->row_tiles = static_cast<int>(parts_of(view.rows, ROWS));
  task->column_tiles = static_cast<int>(parts_of(view.b, Tile::columns));
  task->tiles = static_cast<int>(task->row_tiles * task->column_tiles * view.groups_i * view.groups_j);
}

constexpr int rows_of_pair = 256;  // two blocks of a cluster take 128 n each

inline cudaError_t describe_spread(SpreadTask* task, const GemmView& view) {
  const int64_t* strides = view.weight_strides;
  task->w = view.weight, task->w_i = strides[0], task->w_r = strides[1], task->w_j = strides[3];
  task->x_rows = view.x, task->x_stride = view.x_strides.rows, task->rows = static_cast<int>(view.rows);
  task->d = static_cast<int>(view.spread), task->c = static_cast<int>(view.c / view.spread);
  task->inverse_d = inverse_of(static_cast<uint32_t>(view.spread));
  const cudaError_t error = describe_x(task, view);
  return error == cudaSuccess ? describe_y(task, view) : error;
}

template <class T, class Tile>
cudaError_t launch_spread(const GemmView& view, cudaStream_t stream) {
  SpreadTask task;
  const cudaError_t error = describe_spread(&task, view);
  if (error != cudaSuccess) return error;
  count_tiles<Tile, Tile::rows>(&task, view);
  task.x_bytes = static_cast<int>(Tile::x_bytes(task.k_steps));
  return with_spread(view.spread, cudaErrorInvalidValue, [&](auto d) {
    return launch_overlapping(spread_kernel<T, Tile, decltype(d)::value>, task.tiles, Tile::threads,
                              Tile::shared_bytes(task.k_steps), 1, stream, task);
  });
}

template <class T, bool ROWS_CONTIGUOUS, int COLUMNS, int BLOCKS>
cudaError_t launch_tile(const GemmView& view, SingleTile<COLUMNS, BLOCKS> tile, const Machine&, cudaStream_t stream) {
  using Tile = decltype(tile);
  if constexpr (!ROWS_CONTIGUOUS && Tile::spreads)
    if (view.spread > 1) return launch_spread<T, Tile>(view, stream);
  GemmTask task;
  const cudaError_t error = describe_gemm(&task, view, Tile::columns);
  if (error != cudaSuccess) return error;
  count_tiles<Tile, Tile::rows>(&task, view);
  task.x_bytes = static_cast<int>(Tile::x_bytes(task.k_steps));
  return launch_overlapping(single_kernel<T, Tile, ROWS_CONTIGUOUS>, task.tiles, Tile::threads,
                            Tile::shared_bytes(task.k_steps), 1, stream, task);
}

template <class T, bool ROWS_CONTIGUOUS, int COLUMNS, int STAGES, int BUFFERS>
cudaError_t launch_tile(const GemmView& view, StreamedTile<COLUMNS, STAGES, BUFFERS> tile, const Machine& machine,
                        cudaStream_t stream) {
  using Tile = decltype(tile);
  GemmTask task;
  const cudaError_t error = describe_gemm(&task, view, Tile::columns / Tile::cluster);
  if (error != cudaSuccess) return error;
  count_tiles<Tile, rows_of_pair>(&task, view);
  return launch_overlapping(streamed_kernel<T, Tile, ROWS_CONTIGUOUS>,
                            Tile::cluster * std::min(task.tiles, machine.pairs), Tile::threads, Tile::shared_bytes,
                            Tile::cluster, stream, task);
}

template <class T, bool ROWS_CONTIGUOUS, int COLUMNS, int STAGES, bool WIDE>
cudaError_t launch_tile(const GemmView& view, AlternatingTile<COLUMNS, STAGES, WIDE> tile, const Machine& machine,
                        cudaStream_t stream) {
  using Tile = decltype(tile);
  if constexpr (WIDE && !ROWS_CONTIGUOUS) {
    return cudaErrorInvalidValue;
  } else {
    typename Tile::Task task;
    cudaError_t error;
    if constexpr (WIDE)
      error = describe_wide<Tile>(&task, view);
    else
      error = describe_gemm(&task, view, Tile::columns / Tile::cluster, Tile::paired ? gemm_part : 64);
    if (error != cudaSuccess) return error;
    count_tiles<Tile, rows_of_pair>(&task, view);
    return launch_overlapping(alternating_kernel<T, Tile, ROWS_CONTIGUOUS>,
                              Tile::cluster * std::min(task.tiles, machine.pairs), Tile::threads, Tile::shared_bytes,
                              Tile::cluster, stream, task);
  }
}

template <class T>
cudaError_t launch_gemm_of(const GemmView& view, GemmTile tile, const Machine& machine, cudaStream_t stream) {
  return with_gemm_tile(tile, [&](auto chosen) {
    return view.rows_contiguous ? launch_tile<T, true>(view, chosen, machine, stream)
                                : launch_tile<T, false>(view, chosen, machine, stream);
  });
}

cudaError_t launch_gemm_float16(const GemmView& view, GemmTile tile, const Machine& machine, cudaStream_t stream);
cudaError_t launch_gemm_bfloat16(const GemmView& view, GemmTile tile, const Machine& machine, cudaStream_t stream);

}  // namespace ksmm::hopper
