// What the gemm kernels are told of a product: tensors, sizes, and how many tiles there are. Host code.
#pragma once

#include "gemm.h"
#include "gemm_resident_tile.cuh"
#include "gemm_spread_weight.cuh"
#include "gemm_task.cuh"
#include "tensor_map.h"

namespace ksmm::hopper {

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

// How long X and Y stay in the L2 cache. In batch_last, where both are much larger than it, they are faster with X that
// leaves last, also where nobody reads it again; and where no more is written than two times what is read, with Y that
// leaves in its turn instead of first. Smaller ones lose by X what they had found of it since the product before, and
// long sums gain nothing (docs/cache.md).
inline void say_what_stays(GemmTask* task, const GemmView& view) {
  constexpr int64_t mebibyte = 1 << 20;
  const int64_t bytes = 2 * view.groups_i * view.groups_j * (view.b + view.c) * view.rows;
  const bool writes_more = view.b > 2 * view.c;
  const bool large = bytes > (writes_more ? 512 : 256) * mebibyte, short_sums = view.c <= (writes_more ? 128 : 256);
  if (!view.rows_contiguous) return;
  if (large && short_sums) task->x_keep = Keep::last_out;
  if (!writes_more && bytes > 64 * mebibyte) task->y_keep = Keep::normal;
}

// X, the bias and the sizes, which all gemm kernels are told.
inline cudaError_t describe_x(GemmTask* task, const GemmView& view) {
  task->bias = view.bias;
  task->b = static_cast<int>(view.b), task->groups_j = static_cast<int>(view.groups_j);
  task->k_steps = static_cast<int>((view.c + gemm_step - 1) / gemm_step);
  say_what_stays(task, view);
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
           {row, 1, 1, Tile::part, 1}},
          {4,
           {view.rows, view.groups_j, view.b, view.groups_i},
           {1, strides.j, strides.features, strides.i},
           {row, 1, Tile::part, 1}}};
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

// The ring has the last stages of the tiles before, and their W, which the next tile need not load if it has the same.
// So that it mostly has, clusters are teams of six or eleven where they can, or of fewer, and keep an r each; where
// they cannot share the r evenly they are all together, and all but a few keep one (docs/gemm.md, "W that the ring
// has").
template <class Tile>
void form_teams(GemmTask* task, int clusters) {
  static_assert(Tile::stages == 4, "else tiles of some numbers of steps find W of different tiles at different steps");
  const int columns = task->column_tiles, steps = task->k_steps, most = std::min(steps, Tile::stages);
  const int from = Tile::stages % most;  // steps whose stage had another c, as the first of three in four stages
  task->in_ring = {Tile::stages / most, from, most, steps > most ? steps - most : (steps - from) % steps};
  // Where the last r of b are fewer, their clusters would have less to do than others. With more tiles of r than
  // clusters none can keep one, and turns by that many might be more than 32 bits hold.
  const bool keeps_r = columns == 1 || (task->b % Tile::columns == 0 && columns <= clusters);
  task->turn = keeps_r ? (columns - clusters % columns) % columns : 1, task->turn_every = keeps_r ? clusters : columns;
  if (!keeps_r || clusters % columns != 0) return;
  const int groups = clusters / columns;
  int members = steps > Tile::stages ? 11 : 6;
  while (groups % members != 0) --members;
  task->teams = members > 1 ? groups / members : 1, task->abreast = columns;
}

// How many planes follow each other in time before another r or n does: up to four in batch_last, whose rows of X and Y
// are neighbours in memory, and whose blocks come between those that read the same X. Up to 128 of c this pays where
// they are all planes of an i, and for more than 384 not at all (docs/gemm.md, "Planes side by side").
inline int planes_side_by_side(const GemmView& view) {
  const int64_t steps = parts_of(view.c, gemm_step);
  int planes = 4;
  while (view.groups_j % planes != 0) --planes;
  return view.rows_contiguous && steps >= (planes == view.groups_j ? 2 : 3) && steps <= 6 ? planes : 1;
}

// How many blocks ask ahead: two for each multiprocessor, so all that stay; none where X and Y fit into the L2 cache.
// There X is what the kernel before wrote or read, and asking took a microsecond of 5 to 10 (docs/gemm.md, "Asked for
// ahead").
inline int blocks_ahead(const GemmView& view, const Machine& machine) {
  constexpr int64_t in_cache = 32 << 20;
  const int64_t features = view.groups_i * view.groups_j * (view.b + view.c);
  return 2 * features * view.rows > in_cache ? 2 * machine.multiprocessors : 0;
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

inline cudaError_t describe_resident(ResidentTask* task, const GemmView& view) {
  task->y_rows = view.y, task->y_i = view.y_strides.i, task->y_stride = view.y_strides.rows;
  return describe_spread(task, view);
}

// What each block has of the tiles that stay with a matrix.
template <class Tile>
struct ResidentShares {
  int64_t row_tiles, matrices;
  int blocks;
  int64_t tiles, made;  // of a block, at most
  ResidentShares(const GemmView& view, const Machine& machine) {
    row_tiles = parts_of(view.rows, gemm_rows), matrices = view.groups_i * parts_of(view.b, Tile::columns);
    blocks = resident_blocks(row_tiles, matrices, machine.multiprocessors);
    tiles = parts_of(row_tiles * matrices, blocks), made = parts_of(matrices, blocks);
  }
};

template <class Tile>
int stages_of_resident(const GemmView& view, const Machine& machine) {
  const int64_t k_steps = parts_of(view.c, gemm_step);
  return Tile::stages(k_steps, ResidentShares<Tile>(view, machine).tiles * k_steps, machine.shared_limit);
}

}  // namespace ksmm::hopper
