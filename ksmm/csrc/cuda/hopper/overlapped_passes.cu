// batch_first with d > 1 in three passes, or two, of which the transpositions of some rows of the batch run beside the
// products of others: those wait for memory, and these, where b and c are large, for arithmetic; and products in
// clusters of eight blocks leave some multiprocessors idle.
#include <iterator>

#include "../arrange.cuh"
#include "overlapped_plan.cuh"
#include "side_stream.h"
#include "three_passes.h"

namespace ksmm::hopper {

#ifdef KSMM_SM90A

namespace {

constexpr int buffers = 2;  // of X' and of Y': one is transposed while the other is multiplied

template <class Way>
bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
  constexpr int fewest = 16;  // some of which can be set aside
  return machine.multiprocessors >= fewest && Way::most(machine) < machine.multiprocessors &&
         problem.batch > multiple_of_rows && Way::takes(problem, operands, machine);
}

template <class Way>
double seconds(const Problem& problem, const Machine& machine) {
  return plan_for<Way>(problem, arranged_operands(problem), machine).seconds;
}

// The parts of one call. X of the next part and Y of the part before are transposed on the main stream, while this part
// is multiplied on one of two others, in turn: the products of the next part begin where those of this one leave off.
template <class Way>
struct Pipeline {
  const Problem& problem;
  const Operands& operands;
  const Machine& machine;
  const Workspace& workspace;
  Plan plan;
  int64_t bytes;  // of a part and one of c, or of b
  char *x, *y;

  Passes part(int64_t index) const {
    return Way::describe(problem, from_row(problem, operands, plan.first_row(index, problem.batch)),
                         plan.rows_of(index, problem.batch), x + index % buffers * bytes * problem.c,
                         Way::transposes_y ? y + index % buffers * bytes * problem.b : nullptr);
  }

  const Configuration* configuration_of(const Passes& passes) const {
    return choose_product(Way::products(passes.product), passes, machine);
  }

  // What is done to W once, for the parts that are multiplied as the second one is: all but, perhaps, those at the
  // ends.
  cudaError_t prepare_weight(Operands* used, cudaStream_t stream) const {
    const Passes passes = part(1);
    const Configuration* configuration = configuration_of(passes);
    if (configuration == nullptr) return cudaErrorInvalidValue;
    return hopper::prepare_weight(*configuration, passes, used, workspace, stream);
  }

  cudaError_t multiply(const Passes& passes, cudaStream_t stream) const {
    const Configuration* configuration = configuration_of(passes);
    if (configuration == nullptr) return cudaErrorInvalidValue;
    return configuration->launch(passes.product, passes.of_product, Way::part(machine, plan.multiplying), workspace,
                                 stream);
  }

  cudaError_t transpose_y(int64_t index, cudaStream_t stream) const {
    return Way::transposes_y ? transpose(part(index).y, stream) : cudaSuccess;
  }

  cudaError_t run(cudaStream_t stream, SideStream* const (&sides)[2]) const {
    const int64_t parts = plan.parts(problem.batch);
    cudaError_t error = transpose(part(0).x, stream);
    const auto then = [&](auto step) { error = error == cudaSuccess ? step() : error; };
    for (int64_t index = 0; index < parts; ++index) {
      SideStream &present = *sides[index % 2], &before = *sides[(index + 1) % 2];
      then([&] { return present.wait_for_main(); });
      then([&] { return multiply(part(index), present.stream()); });
      if (index > 0) then([&] { return before.join(); });
      if (index + 1 < parts) then([&] { return transpose(part(index + 1).x, stream); });
      if (index > 0) then([&] { return transpose_y(index - 1, stream); });
    }
    // also where something failed: the main stream waits for all that was enqueued
    for (SideStream* side : sides) {
      const cudaError_t joined = side->join();
      then([&] { return joined; });
    }
    then([&] { return transpose_y(parts - 1, stream); });
    return error;
  }
};

template <class Way>
cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace& workspace,
                   cudaStream_t stream) {
  SideStream even(stream), odd(stream);
  if (even.error() != cudaSuccess) return even.error();
  if (odd.error() != cudaSuccess) return odd.error();
  Operands used = operands;
  if (operands.bias != nullptr && Way::arranges_bias(problem)) {
    const cudaError_t error = arrange_bias(problem, &used.bias, workspace, stream);
    if (error != cudaSuccess) return error;
  }
  const Plan plan = plan_for<Way>(problem, used, machine);
  if (plan.rows == 0) return cudaErrorInvalidValue;
  const int64_t bytes = plan.rows * problem.a * problem.d * size_of(problem.dtype);
  const auto allocate = [&](int64_t size) {
    return static_cast<char*>(workspace.allocate(static_cast<size_t>(size), workspace.context));
  };
  char* const x = allocate(buffers * bytes * problem.c);
  char* const y = Way::transposes_y ? allocate(buffers * bytes * problem.b) : nullptr;
  const Pipeline<Way> pipeline{problem, used, machine, workspace, plan, bytes, x, y};
  const cudaError_t error = pipeline.prepare_weight(&used, stream);  // which the pipeline's parts then have
  return error == cudaSuccess ? pipeline.run(stream, {&even, &odd}) : error;
}

template <class Way>
constexpr Configuration as(const char* name, bool weight_is_arranged) {
  return {name, weight_is_arranged, takes<Way>, seconds<Way>, launch<Way>};
}

constexpr Configuration family[] = {
    as<ThreePasses<matrix_family>>("overlapped passes", true),
    as<ThreePasses<strict_family>>("overlapped passes strict", false),
    as<TwoPasses>("overlapped two passes", true),
};

}  // namespace

Configurations overlapped_pass_configurations() { return {family, static_cast<int>(std::size(family))}; }

#else

Configurations overlapped_pass_configurations() { return {nullptr, 0}; }

#endif

}  // namespace ksmm::hopper
