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

// Of the launches little is seen in float32, as its products are predicted a little long where there are few rows;
// transpositions by pairs take 1.3 us more each.
template <Family FAMILY>
double seconds(const Problem& problem, const Machine& machine) {
  const Passes passes = describe_passes(problem, arranged_operands(problem), problem.batch, nullptr, nullptr);
  const Configuration* configuration = choose_product(FAMILY(passes.product), passes, machine);
  if (configuration == nullptr) return 1e9;
  const double transpositions = transposed_bytes(problem, problem.b + problem.c) / transposition_rate(problem, machine);
  const double launches = problem.dtype == Dtype::float32 ? 1e-6 : transposes_by_pairs(problem) ? 6.5e-6 : 4e-6;
  return launches + transpositions + configuration->seconds(passes.product, machine);
}

template <Family FAMILY>
cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace& workspace,
                   cudaStream_t stream) {
  const int64_t part = std::min(rows_of_part(problem), problem.batch);
  const int64_t bytes = part * problem.a * problem.d * size_of(problem.dtype);
  void* const x = workspace.allocate(static_cast<size_t>(bytes * problem.c), workspace.context);
  void* const y = workspace.allocate(static_cast<size_t>(bytes * problem.b), workspace.context);
  Operands used = operands;
  cudaError_t error = cudaSuccess;
  if (operands.bias != nullptr && arranges_bias(problem)) error = arrange_bias(problem, &used.bias, workspace, stream);
  for (int64_t n = 0; n < problem.batch && error == cudaSuccess; n += part) {
    const int64_t rows = std::min(part, problem.batch - n);
    const Passes passes = describe_passes(problem, from_row(problem, used, n), rows, x, y);
    const Configuration* configuration = choose_product(FAMILY(passes.product), passes, machine);
    if (configuration == nullptr) return cudaErrorInvalidValue;
    if (n == 0 && rows < problem.batch) error = prepare_weight(*configuration, passes, &used, workspace, stream);
    if (error == cudaSuccess) error = transpose(passes.x, stream);
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
