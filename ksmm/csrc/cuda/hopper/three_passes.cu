// batch_first with d > 1 in three passes.
#include <algorithm>

#include "../arrange.cuh"
#include "../transpose.cuh"
#include "gemm.h"
#include "tf32.cuh"
#include "three_passes.h"

namespace ksmm::hopper {

#ifdef KSMM_SM90A

namespace {

// What goes from pass to pass takes so much memory at most: the batch is taken in parts.
constexpr int64_t most_bytes = int64_t{1} << 30;
constexpr int64_t batch_multiple = 256;  // of a part: whole tiles

// How many rows of the batch are taken at a time.
int64_t rows_of_part(const Problem& problem) {
  const int64_t row = problem.a * problem.d * (problem.b + problem.c) * size_of(problem.dtype);
  const int64_t parts = std::max<int64_t>(1, parts_of(problem.batch * row, most_bytes));
  return parts_of(parts_of(problem.batch, parts), batch_multiple) * batch_multiple;
}

// X' is [n][i][j][k] and Y' is [n][i][j][r]: for the pass in between, a factor of a d blocks and d = 1.
Problem product_of(const Problem& problem, int64_t rows) {
  Problem product = problem;
  product.a = problem.a * problem.d, product.d = 1, product.batch = rows;
  return product;
}

Operands operands_of_product(const Problem& problem, const Operands& operands, const void* x, const void* bias,
                             void* y) {
  const int64_t* strides = operands.weight_strides;
  return {x, problem.a * problem.d * problem.c, operands.weight, {strides[3], strides[1], strides[2], 0}, bias, y};
}

Transposition of_x(const Problem& problem, const void* source, void* destination, int64_t rows) {
  return {size_of(problem.dtype), source, destination, rows * problem.a, problem.c, problem.d};
}

Transposition of_y(const Problem& problem, const void* source, void* destination, int64_t rows) {
  return {size_of(problem.dtype), source, destination, rows * problem.a, problem.d, problem.b};
}

// The fastest for the pass in between by the cost model; null where none takes it.
const Configuration* choose_product(const Problem& product, const Operands& operands, const Machine& machine) {
  const Configurations family = product.dtype == Dtype::float32 ? tf32_batch_first_runs() : gemm_configurations();
  const Configuration* best = nullptr;
  for (const Configuration* each = family.data; each != family.data + family.count; ++each)
    if (each->takes(product, operands, machine) &&
        (best == nullptr || each->seconds(product, machine) < best->seconds(product, machine)))
      best = each;
  return best;
}

bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
  if (problem.layout != Layout::batch_first || problem.d == 1 || problem.batch == 0) return false;
  if (operands.x_stride != problem.a * problem.c * problem.d) return false;
  const int64_t* strides = operands.weight_strides;  // of i and j as one
  if (problem.a > 1 && strides[0] != problem.d * strides[3]) return false;
  // the workspace is aligned
  const Operands of_product = operands_of_product(problem, operands, nullptr, nullptr, nullptr);
  return can_transpose(of_x(problem, operands.x, nullptr, 1)) && can_transpose(of_y(problem, nullptr, operands.y, 1)) &&
         choose_product(product_of(problem, rows_of_part(problem)), of_product, machine) != nullptr;
}

// The transpositions run at about 0.82 of the rate of a copy.
double seconds(const Problem& problem, const Machine& machine) {
  Operands arranged = {};
  const int64_t row = parts_of(problem.c, 8) * 8, plane = problem.b * row;
  arranged.weight_strides[0] = problem.d * plane, arranged.weight_strides[1] = row;
  arranged.weight_strides[2] = 1, arranged.weight_strides[3] = plane;
  const Problem product = product_of(problem, problem.batch);
  const Operands of_product = operands_of_product(problem, arranged, nullptr, nullptr, nullptr);
  const Configuration* configuration = choose_product(product, of_product, machine);
  if (configuration == nullptr) return 1e9;
  const double bytes = static_cast<double>(size_of(problem.dtype)) * problem.a * problem.d * (problem.b + problem.c);
  return 5e-6 + 2 * bytes * problem.batch / (0.82 * machine.memory_rate) + configuration->seconds(product, machine);
}

cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace& workspace,
                   cudaStream_t stream) {
  const int64_t part = std::min(rows_of_part(problem), problem.batch), size = size_of(problem.dtype);
  const int64_t x_row = problem.a * problem.c * problem.d * size, y_row = problem.a * problem.b * problem.d * size;
  void* const x = workspace.allocate(static_cast<size_t>(part * x_row), workspace.context);
  void* const y = workspace.allocate(static_cast<size_t>(part * y_row), workspace.context);
  const void* bias = operands.bias;
  cudaError_t error = bias == nullptr ? cudaSuccess : arrange_bias(problem, &bias, workspace, stream);
  const Operands of_product = operands_of_product(problem, operands, x, bias, y);
  for (int64_t n = 0; n < problem.batch && error == cudaSuccess; n += part) {
    const int64_t rows = std::min(part, problem.batch - n);
    const Problem product = product_of(problem, rows);
    const Configuration* configuration = choose_product(product, of_product, machine);
    if (configuration == nullptr) return cudaErrorInvalidValue;
    error = transpose(of_x(problem, static_cast<const char*>(operands.x) + n * x_row, x, rows), stream);
    if (error == cudaSuccess) error = configuration->launch(product, of_product, machine, workspace, stream);
    if (error == cudaSuccess)
      error = transpose(of_y(problem, y, static_cast<char*>(operands.y) + n * y_row, rows), stream);
  }
  return error;
}

constexpr Configuration family[] = {{"three passes", true, takes, seconds, launch}};

}  // namespace

Configurations three_pass_configurations() { return {family, 1}; }

#else

Configurations three_pass_configurations() { return {nullptr, 0}; }

#endif

}  // namespace ksmm::hopper
