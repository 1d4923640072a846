// batch_first with d > 1 in three passes, one after another.
#include <algorithm>
#include <iterator>

#include "../arrange.cuh"
#include "three_passes.cuh"
#include "three_passes.h"

namespace ksmm::hopper {

#ifdef KSMM_SM90A

namespace {

int64_t rows_of_part(const Problem& problem) {
  return hopper::rows_of_part(problem, problem.a * problem.d * (problem.b + problem.c));
}

template <Family FAMILY>
bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
  return takes_in_parts<FAMILY>(problem, operands, machine, rows_of_part(problem));
}

// Of the launches little is seen in float32, as its products are predicted a little long where there are few rows.
template <Family FAMILY>
double seconds(const Problem& problem, const Machine& machine) {
  const Passes passes = describe_passes(problem, arranged_operands(problem), problem.batch, nullptr, nullptr);
  const Configuration* configuration = choose_product<FAMILY>(passes, machine);
  if (configuration == nullptr) return 1e9;
  const double transpositions = transposed_bytes(problem, problem.batch) / transposition_rate(problem, machine);
  return (problem.dtype == Dtype::float32 ? 1e-6 : 4e-6) + transpositions +
         configuration->seconds(passes.product, machine);
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
