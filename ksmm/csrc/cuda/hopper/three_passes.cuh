// What the configurations in three passes have in common: X transposed to where its products are ordinary matrices,
// those products, and Y transposed back. Host code.
#pragma once

#include "../arrange.cuh"
#include "../portable.cuh"
#include "../transpose.cuh"
#include "gemm.h"
#include "passes.h"
#include "tf32.cuh"

namespace ksmm::hopper {

// X' and Y' are [features][n] in float32, whose products are fastest in batch_last, and else [n][i][j][k] and
// [n][i][j][r], which is a product by a factor of a d blocks and d = 1.
inline bool by_batch_last(const Problem& problem) { return problem.dtype == Dtype::float32 && problem.batch % 4 == 0; }

// The 16-bit products read the bias of planes where it is; the others have it arranged.
inline bool reads_bias_of_planes(const Problem& problem) { return problem.dtype != Dtype::float32; }
inline bool arranges_bias(const Problem& problem) { return !by_batch_last(problem) && !reads_bias_of_planes(problem); }

inline Passes describe_passes(const Problem& problem, const Operands& operands, int64_t rows, void* x, void* y) {
  const auto& [a, b, c, d, batch, dtype, layout, precision] = problem;
  const int size = size_of(dtype);
  Passes passes = {{}, {}, problem, operands};
  passes.product.batch = rows, passes.of_product.x = x, passes.of_product.y = y;
  if (by_batch_last(problem)) {
    passes.x = {size, operands.x, x, 1, rows, a * c * d};
    passes.y = {size, y, operands.y, 1, a * b * d, rows};
    passes.product.layout = Layout::batch_last, passes.of_product.x_stride = rows;
  } else {
    passes.x = {size, operands.x, x, rows * a, c, d};
    passes.y = {size, y, operands.y, rows * a, d, b};
    passes.product.a = a * d, passes.product.d = 1, passes.of_product.x_stride = a * c * d;
    passes.of_product.weight_strides[0] = operands.weight_strides[3];
    if (reads_bias_of_planes(problem)) passes.of_product.bias_planes = d;
  }
  return passes;
}

// The families of the pass in between: on the matrix units, whose weight is arranged, or by float32 multiply-adds.
inline Configurations matrix_family(const Problem& problem) {
  return problem.dtype == Dtype::float32 ? tf32_configurations() : gemm_configurations();
}
inline Configurations strict_family(const Problem& problem) {
  return problem.dtype == Dtype::float32 ? portable_configurations() : Configurations{nullptr, 0};
}
using Family = Configurations (*)(const Problem&);

// Whether it can be done with so many rows of the batch at a time.
template <Family FAMILY>
bool takes_in_parts(const Problem& problem, const Operands& operands, const Machine& machine, int64_t rows) {
  if (problem.layout != Layout::batch_first || problem.d == 1 || problem.batch == 0) return false;
  if (operands.x_stride != problem.a * problem.c * problem.d) return false;
  const int64_t* strides = operands.weight_strides;  // of i and j as one
  if (!by_batch_last(problem) && problem.a > 1 && strides[0] != problem.d * strides[3]) return false;
  // the workspace is aligned
  const Passes passes = describe_passes(problem, operands, rows, nullptr, nullptr);
  return can_transpose(passes.x) && can_transpose(passes.y) &&
         choose_product(FAMILY(passes.product), passes, machine) != nullptr;
}

// The operands that the cost model reckons with: their weight is arranged.
inline Operands arranged_operands(const Problem& problem) {
  Operands arranged = {};
  stride_as_arranged(problem, &arranged);
  return arranged;
}

// Whether transpositions read and write two 16-bit numbers at a time, where no four of them are in a row.
inline bool transposes_by_pairs(const Problem& problem) {
  return problem.dtype != Dtype::float32 && problem.d % 4 != 0;
}

// Bytes that a transposition of so many features of all rows reads and writes, and the rate of both transpositions in
// bytes per second: 0.92 and 0.93 of a copy's, or half of that by pairs (by 70 times of d of 2, 3 and 6 on H200s).
inline double transposed_bytes(const Problem& problem, int64_t features) {
  return 2.0 * size_of(problem.dtype) * static_cast<double>(problem.a) * problem.d * features *
         static_cast<double>(problem.batch);
}
inline double transposition_rate(const Problem& problem, const Machine& machine) {
  return (problem.dtype == Dtype::float32 ? 0.92 : transposes_by_pairs(problem) ? 0.45 : 0.93) * machine.memory_rate;
}

}  // namespace ksmm::hopper
