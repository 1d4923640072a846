// The products Y = W X of many small matrices on Hopper's matrix units, both operands in shared memory, for 16-bit
// types.
//
//   Y[i, j][n, r] = bias[i, r, j] + sum over k of X[i, j][n, k] W[i, j][r, k]
//
// with any strides, as long as either n is contiguous in X and Y (batch_last), or k is in X and r in Y (batch_first
// with d = 1, or of few planes as one matrix, and the intermediates of a product in several passes). X and Y cross
// device memory once.
#pragma once

#include <algorithm>

#include "../configuration.h"

namespace ksmm::hopper {

// A matrix for each (i, j): element strides. `features` is the stride of k in X, of r in Y.
struct GemmStrides {
  int64_t i, j, rows, features;
};

struct GemmView {
  Dtype dtype;           // float16 or bfloat16
  bool rows_contiguous;  // whether n is contiguous in X and Y; otherwise their features are
  int64_t groups_i, groups_j, rows, b, c;
  const void* x;
  GemmStrides x_strides;
  const void* weight;
  int64_t weight_strides[4];  // of i, r, k (1) and j
  // d of a product in batch_first whose planes are multiplied as one matrix, with zeros between them (gemm_spread.cuh):
  // groups_j is 1 then, b and c are d times those of W, and features are r d + j and k d + j. Otherwise 1.
  int64_t spread = 1;
  const void* bias;  // bias[(i b + r) groups_j + j], or null
  void* y;
  GemmStrides y_strides;
};

// How X and W come. single: all that a tile needs at once, for a block that ends with it; streamed: in stages of 64 k,
// for two warpgroups of each of two blocks that stay for many tiles; alternating: likewise, for one warpgroup at a
// time; wide: as alternating, while Y leaves in rows of 256 bytes, which n contiguous allows; resident: blocks that
// stay with a matrix of W spread over planes, and stream X alone.
enum class GemmHold { single, streamed, alternating, wide, resident };

struct GemmTile {
  GemmHold hold;
  int columns;     // r of a tile
  int blocks = 2;  // of 64 n that a warpgroup has (single)
};

// Fills *view with the product. Blocks that are planes of another product (Operands::bias_planes) are its planes here.
inline void view_problem(const Problem& problem, const Operands& operands, GemmView* view) {
  const bool last = problem.layout == Layout::batch_last;
  const int64_t spread = last ? 1 : problem.d, planes = last ? problem.d : operands.bias_planes;
  const int64_t stride = operands.x_stride, batch = problem.batch, b = problem.b * spread, c = problem.c * spread;
  view->dtype = problem.dtype;
  view->rows_contiguous = last;
  view->groups_i = problem.a / operands.bias_planes, view->groups_j = planes;
  view->rows = batch, view->b = b, view->c = c, view->spread = spread;
  view->x = operands.x, view->weight = operands.weight, view->bias = operands.bias, view->y = operands.y;
  std::copy(operands.weight_strides, operands.weight_strides + 4, view->weight_strides);
  if (last) {
    view->x_strides = {planes * c * stride, stride, 1, planes * stride};
    view->y_strides = {planes * b * batch, batch, 1, planes * batch};
  } else {
    view->x_strides = {planes * c, c, stride, 1}, view->y_strides = {planes * b, b, problem.a * b, 1};
    view->weight_strides[0] = planes * operands.weight_strides[0];
    view->weight_strides[3] = planes > 1 ? operands.weight_strides[0] : operands.weight_strides[3];
  }
}

// Whether the copy engine takes the operands, and the tile the sizes.
bool gemm_takes(const GemmView& view, GemmTile tile, const Machine& machine);
double gemm_seconds(const GemmView& view, GemmTile tile, const Machine& machine);
cudaError_t launch_gemm(const GemmView& view, GemmTile tile, const Machine& machine, cudaStream_t stream);

// The tile that the cost model picks among those that take the view; false where none does.
bool choose_gemm_tile(const GemmView& view, const Machine& machine, GemmTile* tile);

}  // namespace ksmm::hopper

namespace ksmm {

Configurations gemm_configurations();

}  // namespace ksmm
