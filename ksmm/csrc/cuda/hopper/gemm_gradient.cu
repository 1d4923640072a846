// Gradients of weights in batch_last, 16-bit types: for each (i, j) the product of ∂Y (b rows) and X (c rows) over n,
// which is contiguous in both. That is gemm with n in the place of k. Where there are too few tiles to keep all
// multiprocessors busy to the end, n is cut into parts, whose products are to be summed.
#include <algorithm>
#include <cstdint>

#include "../../ks_matmul.h"
#include "gemm.h"

namespace ksmm {

#if defined(KSMM_SM90A)
namespace {

using hopper::GemmTile;
using hopper::GemmView;

constexpr int64_t fewest_of_part = 256, most_launches = 8;
constexpr int64_t waves = 3;  // of tiles: the last one is never whole

// The products of all i, or of one of them if there are parts, and both several i and j.
GemmView view_of(const WeightGradient& of, int64_t parts, int64_t i, void* products) {
  const int64_t part = of.batch / parts, matrix = of.b * of.c;
  const int64_t x_i = of.c * of.d * of.x_stride, y_i = of.b * of.d * of.y_stride;
  GemmView view = {};
  view.dtype = of.dtype, view.rows_contiguous = false;
  view.rows = of.b, view.b = of.c, view.c = part;
  view.x = static_cast<const uint16_t*>(of.y) + i * y_i;
  view.weight = static_cast<const uint16_t*>(of.x) + i * x_i;
  view.y = static_cast<uint16_t*>(products) + i * of.d * matrix;
  view.weight_strides[1] = of.d * of.x_stride, view.weight_strides[2] = 1;
  view.x_strides.rows = of.d * of.y_stride, view.x_strides.features = 1;
  view.y_strides.rows = of.c, view.y_strides.features = 1;
  if (parts > 1 && of.d == 1) {  // (i, part)
    view.groups_i = of.a, view.groups_j = parts;
    view.x_strides.i = y_i, view.weight_strides[0] = x_i, view.y_strides.i = matrix;
    view.x_strides.j = view.weight_strides[3] = part, view.y_strides.j = of.a * matrix;
  } else {  // (part, j), or (i, j)
    view.groups_i = parts > 1 ? parts : of.a, view.groups_j = of.d;
    view.x_strides.i = parts > 1 ? part : y_i, view.weight_strides[0] = parts > 1 ? part : x_i;
    view.y_strides.i = parts > 1 ? of.a * of.d * matrix : of.d * matrix;
    view.x_strides.j = of.y_stride, view.weight_strides[3] = of.x_stride, view.y_strides.j = matrix;
  }
  return view;
}

int64_t launches_of(const WeightGradient& of, int64_t parts) { return parts > 1 && of.d > 1 ? of.a : 1; }

bool chosen(const WeightGradient& of, int64_t parts, const Machine& machine, GemmTile* tile) {
  return launches_of(of, parts) <= most_launches &&
         hopper::choose_gemm_tile(view_of(of, parts, 0, nullptr), machine, tile);
}

}  // namespace

int64_t weight_gradient_parts(const WeightGradient& of) {
  Machine machine;
  if (current_machine(&machine) != cudaSuccess || machine.capability != 90 || of.dtype == Dtype::float32) return 0;
  if (of.batch == 0 || of.batch % 8 != 0) return 0;  // parts begin at multiples of 16 bytes
  GemmTile tile;
  const int64_t tiles = of.a * of.d * parts_of(of.b, 256) * parts_of(of.c, 128);
  for (int64_t parts = parts_of(waves * machine.multiprocessors, tiles);
       parts > 1 && parts <= of.batch / fewest_of_part; ++parts)
    if (of.batch / 8 % parts == 0 && chosen(of, parts, machine, &tile)) return parts;
  return chosen(of, 1, machine, &tile) ? 1 : 0;
}

int weight_gradient_cuda(const WeightGradient& of, int64_t parts, void* products, void* stream) {
  Machine machine;
  cudaError_t error = current_machine(&machine);
  GemmTile tile;
  if (error == cudaSuccess && !chosen(of, parts, machine, &tile)) error = cudaErrorInvalidValue;
  for (int64_t i = 0; error == cudaSuccess && i < launches_of(of, parts); ++i)
    error = hopper::launch_gemm(view_of(of, parts, i, products), tile, machine, static_cast<cudaStream_t>(stream));
  return error;
}

#else

int64_t weight_gradient_parts(const WeightGradient&) { return 0; }
int weight_gradient_cuda(const WeightGradient&, int64_t, void*, void*) { return cudaErrorNotSupported; }

#endif

}  // namespace ksmm
