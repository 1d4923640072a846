// batch_first with d > 1 in three passes.
#include <algorithm>
#include <iterator>

#include "../arrange.cuh"
#include "../portable.cuh"
#include "../transpose.cuh"
#include "gemm.h"
#include "passes.h"
#include "tf32.cuh"
#include "three_passes.h"

namespace ksmm::hopper {

#ifdef KSMM_SM90A

namespace {

int64_t rows_of_part(const Problem& problem) {
  return hopper::rows_of_part(problem, problem.a * problem.d * (problem.b + problem.c));
}

// What happens to some rows of the batch: X' and Y' are [features][n] in float32, whose products are fastest in
// batch_last, and else [n][i][j][k] and [n][i][j][r], which is a product by a factor of a d blocks and d = 1.
struct Passes {
  Transposition x, y;
  Problem product;
  Operands of_product;
};

bool by_batch_last(const Problem& problem) { return problem.dtype == Dtype::float32 && problem.batch % 4 == 0; }

Passes describe_passes(const Problem& problem, const Operands& operands, int64_t rows, void* x, void* y) {
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
  }
  return passes;
}

// The families of the pass in between: on the matrix units, whose weight is arranged, or by float32 multiply-adds.
Configurations matrix_family(const Problem& problem) {
  return problem.dtype == Dtype::float32 ? tf32_configurations() : gemm_configurations();
}
Configurations strict_family(const Problem& problem) {
  return problem.dtype == Dtype::float32 ? portable_configurations() : Configurations{nullptr, 0};
}
using Family = Configurations (*)(const Problem&);

// The fastest for the pass in between by the cost model; null where none takes it.
template <Family FAMILY>
const Configuration* choose_product(const Passes& passes, const Machine& machine) {
  const Configurations family = FAMILY(passes.product);
  const Configuration* best = nullptr;
  for (const Configuration* each = family.data; each != family.data + family.count; ++each)
    if (each->takes(passes.product, passes.of_product, machine) &&
        (best == nullptr || each->seconds(passes.product, machine) < best->seconds(passes.product, machine)))
      best = each;
  return best;
}

template <Family FAMILY>
bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
  if (problem.layout != Layout::batch_first || problem.d == 1 || problem.batch == 0) return false;
  if (operands.x_stride != problem.a * problem.c * problem.d) return false;
  const int64_t* strides = operands.weight_strides;  // of i and j as one
  if (!by_batch_last(problem) && problem.a > 1 && strides[0] != problem.d * strides[3]) return false;
  // the workspace is aligned
  const Passes passes = describe_passes(problem, operands, rows_of_part(problem), nullptr, nullptr);
  return can_transpose(passes.x) && can_transpose(passes.y) && choose_product<FAMILY>(passes, machine) != nullptr;
}

// The transpositions run at about 0.92 and 0.93 of the rate of a copy; of their launches little is seen in float32, as
// its products are predicted a little long where there are few rows.
template <Family FAMILY>
double seconds(const Problem& problem, const Machine& machine) {
  Operands arranged = {};
  const int64_t row = parts_of(problem.c, 8) * 8, plane = problem.b * row;
  arranged.weight_strides[0] = problem.d * plane, arranged.weight_strides[1] = row;
  arranged.weight_strides[2] = 1, arranged.weight_strides[3] = plane;
  const Passes passes = describe_passes(problem, arranged, problem.batch, nullptr, nullptr);
  const Configuration* configuration = choose_product<FAMILY>(passes, machine);
  if (configuration == nullptr) return 1e9;
  const double features = static_cast<double>(problem.a) * problem.d * (problem.b + problem.c);
  const double bytes = 2 * size_of(problem.dtype) * features * static_cast<double>(problem.batch);
  const bool single = problem.dtype == Dtype::float32;
  const double rate = (single ? 0.92 : 0.93) * machine.memory_rate;
  return (single ? 1e-6 : 4e-6) + bytes / rate + configuration->seconds(passes.product, machine);
}

template <Family FAMILY>
cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace& workspace,
                   cudaStream_t stream) {
  const int64_t part = std::min(rows_of_part(problem), problem.batch), size = size_of(problem.dtype);
  const int64_t x_row = problem.a * problem.c * problem.d * size, y_row = problem.a * problem.b * problem.d * size;
  void* const x = workspace.allocate(static_cast<size_t>(part * x_row), workspace.context);
  void* const y = workspace.allocate(static_cast<size_t>(part * y_row), workspace.context);
  Operands of_part = operands;
  cudaError_t error = cudaSuccess;
  if (operands.bias != nullptr && !by_batch_last(problem))
    error = arrange_bias(problem, &of_part.bias, workspace, stream);
  for (int64_t n = 0; n < problem.batch && error == cudaSuccess; n += part) {
    of_part.x = static_cast<const char*>(operands.x) + n * x_row;
    of_part.y = static_cast<char*>(operands.y) + n * y_row;
    const Passes passes = describe_passes(problem, of_part, std::min(part, problem.batch - n), x, y);
    const Configuration* configuration = choose_product<FAMILY>(passes, machine);
    if (configuration == nullptr) return cudaErrorInvalidValue;
    error = transpose(passes.x, stream);
    if (error == cudaSuccess)
      error = configuration->launch(passes.product, passes.of_product, machine, workspace, stream);
    if (error == cudaSuccess) error = transpose(passes.y, stream);
  }
  return error;
}

constexpr Configuration family[] = {
    {"three passes", true, takes<matrix_family>, seconds<matrix_family>, launch<matrix_family>},
    {"three passes strict", false, takes<strict_family>, seconds<strict_family>, launch<strict_family>},
};

}  // namespace

Configurations three_pass_configurations() { return {family, static_cast<int>(std::size(family))}; }

#else

Configurations three_pass_configurations() { return {nullptr, 0}; }

#endif

}  // namespace ksmm::hopper
