// Whether a view of gemm (hopper/gemm.h) finds the numbers of a product where they are: X, W, the bias and Y, in
// batch_last, in batch_first with d = 1, and between the passes of one with d > 1.
#pragma once

#include <random>
#include <tuple>

#include "../../ksmm/csrc/cuda/hopper/three_passes.cuh"

enum class Way { batch_last, batch_first, between_passes };

inline bool is_wrong_view(Way way, std::mt19937& random) {
  using namespace ksmm;
  const auto any = [&](int most) { return static_cast<int64_t>(random() % static_cast<unsigned>(most)) + 1; };
  const bool last = way == Way::batch_last, alone = way == Way::batch_first;
  const int64_t a = any(3), b = any(5), c = any(5), d = alone ? 1 : any(4), batch = any(5);
  const Layout layout = last ? Layout::batch_last : Layout::batch_first;
  const Problem problem = {a, b, c, d, batch, Dtype::bfloat16, layout};
  Operands operands = {};
  const int64_t features = a * c * d, x_stride = last ? batch + any(9) : alone ? features + any(9) : features;
  const int64_t row = c + any(9), plane = b * row, strides[4] = {d * plane, row, 1, plane};
  operands.x_stride = x_stride;
  std::copy(strides, strides + 4, operands.weight_strides);

  hopper::GemmView view;
  if (way == Way::between_passes) {
    const hopper::Passes passes = hopper::describe_passes(problem, operands, batch, nullptr, nullptr);
    hopper::view_problem(passes.product, passes.of_product, &view);
  } else {
    hopper::view_problem(problem, operands, &view);
  }
  // by which the bias is found, too
  if (std::tie(view.groups_i, view.groups_j, view.rows, view.b, view.c) != std::tie(a, d, batch, b, c)) return true;

  const auto place = [](const hopper::GemmStrides& of, int64_t i, int64_t j, int64_t n, int64_t feature) {
    return i * of.i + j * of.j + n * of.rows + feature * of.features;
  };
  // Of feature k of X, of c, or of feature r of Y, of b.
  const auto expected = [&](int64_t stride, int64_t size, int64_t i, int64_t j, int64_t n, int64_t feature) {
    if (last) return ((i * size + feature) * d + j) * stride + n;
    return n * stride + (i * d + j) * size + feature;  // d = 1, or planes side by side
  };
  const int64_t* of = view.weight_strides;
  bool wrong = false;
  for (int64_t i = 0; i < a; ++i)
    for (int64_t j = 0; j < d; ++j)
      for (int64_t n = 0; n < batch; ++n) {
        for (int64_t k = 0; k < c; ++k) wrong |= place(view.x_strides, i, j, n, k) != expected(x_stride, c, i, j, n, k);
        for (int64_t r = 0; r < b; ++r) {
          wrong |= place(view.y_strides, i, j, n, r) != expected(last ? batch : a * b * d, b, i, j, n, r);
          wrong |= i * of[0] + j * of[3] + r * of[1] != (i * d + j) * plane + r * row || of[2] != 1;
        }
      }
  return wrong;
}
