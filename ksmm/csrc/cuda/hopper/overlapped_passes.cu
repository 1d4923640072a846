// batch_first with d > 1 in three passes, of which the transpositions of some rows of the batch run beside the products
// of others: those wait for memory, and these, where b and c are large, for arithmetic.
#include <algorithm>
#include <iterator>

#include "../arrange.cuh"
#include "overlap.cuh"
#include "side_stream.h"
#include "three_passes.cuh"
#include "three_passes.h"

namespace ksmm::hopper {

#ifdef KSMM_SM90A

namespace {

constexpr int64_t multiple_of_rows = 256;  // whole tiles
constexpr int buffers = 2;                 // of X' and of Y': one is transposed while the other is multiplied
constexpr int64_t parts_of_workspace = 3;  // a part takes a third of most_bytes_between_passes

// So many rows of the batch at a time, and multiprocessors that multiply while the others transpose.
struct Plan {
  int64_t rows;
  int multiplying;
  double seconds;
};

// What is left for the products.
Machine part_of(const Machine& machine, int multiprocessors) {
  Machine part = machine;
  const double share = static_cast<double>(multiprocessors) / machine.multiprocessors;
  part.multiprocessors = multiprocessors, part.is_part = true;
  part.pairs = std::min(machine.pairs, multiprocessors / 2);
  part.cache_rate *= share, part.matrix_rate *= share, part.float_rate *= share;
  return part;
}

// While a part is multiplied, others are transposed, at no more than 1.8 times the share of the memory's rate of these
// multiprocessors, and after that by all of them. The first X and the last Y have nothing beside them. Where memory
// rules it moves what is transposed and, half as much, what is multiplied, at 0.85 of its rate. A part more costs 16
// us. Fitted to 40 problems on an H200, where more than five parts were never the fastest by much.
double seconds_of(const Problem& problem, const Configuration& configuration, const Problem& product,
                  const Machine& machine, const Plan& plan) {
  const double parts = static_cast<double>(parts_of(problem.batch, plan.rows));
  const double rate = transposition_rate(problem, machine);
  const double all = transposed_bytes(problem, problem.batch), alone = all / parts, beside = all - alone;
  const double products = parts * configuration.seconds(product, part_of(machine, plan.multiplying));
  const double aside = 1.0 - static_cast<double>(plan.multiplying) / machine.multiprocessors;
  const double left = std::max(0.0, beside - products * 1.8 * aside * machine.memory_rate);
  const double memory = (beside + 0.5 * all) / (0.85 * machine.memory_rate);
  return alone / rate + std::max(products + left / rate, memory) + parts * 16e-6;
}

template <Family FAMILY>
Plan plan_for(const Problem& problem, const Operands& operands, const Machine& machine) {
  Plan best = {0, 0, 1e9};
  const int64_t features = problem.a * problem.d * (problem.b + problem.c);
  const int64_t most = rows_of_part(problem, parts_of_workspace * features);
  for (int64_t parts = std::max<int64_t>(2, parts_of(problem.batch, most)), last = parts + 4; parts < last; ++parts) {
    const int64_t rows = parts_of(parts_of(problem.batch, parts), multiple_of_rows) * multiple_of_rows;
    if (rows >= problem.batch || rows > most) continue;
    const Passes passes = describe_passes(problem, operands, rows, nullptr, nullptr);
    const Configuration* configuration = choose_product<FAMILY>(passes, machine);
    if (configuration == nullptr) continue;
    for (int aside = 4; aside <= machine.multiprocessors / 3; aside += 4) {
      Plan plan = {rows, machine.multiprocessors - aside, 0};
      plan.seconds = seconds_of(problem, *configuration, passes.product, machine, plan);
      if (plan.seconds < best.seconds) best = plan;
    }
  }
  return best;
}

template <Family FAMILY>
bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
  constexpr int fewest = 16;  // some of which can be set aside
  return machine.multiprocessors >= fewest && problem.batch > multiple_of_rows &&
         takes_in_parts<FAMILY>(problem, operands, machine, multiple_of_rows);
}

template <Family FAMILY>
double seconds(const Problem& problem, const Machine& machine) {
  return plan_for<FAMILY>(problem, arranged_operands(problem), machine).seconds;
}

// The parts of one call. X of the next part and Y of the part before are transposed on the main stream, while this part
// is multiplied on one of two others, in turn: the products of the next part begin where those of this one leave off.
template <Family FAMILY>
struct Pipeline {
  const Problem& problem;
  const Operands& operands;
  const Machine& machine;
  const Workspace& workspace;
  Plan plan;
  int64_t bytes;  // of a part and one of c, or of b
  char *x, *y;

  Passes part(int64_t index) const {
    const int64_t n = index * plan.rows, rows = std::min(plan.rows, problem.batch - n);
    return describe_passes(problem, from_row(problem, operands, n), rows, x + index % buffers * bytes * problem.c,
                           y + index % buffers * bytes * problem.b);
  }

  cudaError_t multiply(const Passes& passes, cudaStream_t stream) const {
    const Configuration* configuration = choose_product<FAMILY>(passes, machine);
    if (configuration == nullptr) return cudaErrorInvalidValue;
    return configuration->launch(passes.product, passes.of_product, part_of(machine, plan.multiplying), workspace,
                                 stream);
  }

  cudaError_t run(cudaStream_t stream, SideStream* const (&sides)[2]) const {
    const int64_t parts = parts_of(problem.batch, plan.rows);
    cudaError_t error = transpose(part(0).x, stream);
    const auto then = [&](auto step) { error = error == cudaSuccess ? step() : error; };
    for (int64_t index = 0; index < parts; ++index) {
      SideStream &present = *sides[index % 2], &before = *sides[(index + 1) % 2];
      then([&] { return present.wait_for_main(); });
      then([&] { return multiply(part(index), present.stream()); });
      if (index > 0) then([&] { return before.join(); });
      if (index + 1 < parts) then([&] { return transpose(part(index + 1).x, stream); });
      if (index > 0) then([&] { return transpose(part(index - 1).y, stream); });
    }
    // also where something failed: the main stream waits for all that was enqueued
    for (SideStream* side : sides) {
      const cudaError_t joined = side->join();
      then([&] { return joined; });
    }
    then([&] { return transpose(part(parts - 1).y, stream); });
    return error;
  }
};

template <Family FAMILY>
cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace& workspace,
                   cudaStream_t stream) {
  SideStream even(stream), odd(stream);
  if (even.error() != cudaSuccess) return even.error();
  if (odd.error() != cudaSuccess) return odd.error();
  Operands used = operands;
  if (operands.bias != nullptr && !by_batch_last(problem)) {
    const cudaError_t error = arrange_bias(problem, &used.bias, workspace, stream);
    if (error != cudaSuccess) return error;
  }
  const Plan plan = plan_for<FAMILY>(problem, used, machine);
  if (plan.rows == 0) return cudaErrorInvalidValue;
  const int64_t bytes = plan.rows * problem.a * problem.d * size_of(problem.dtype);
  const auto allocate = [&](int64_t size) {
    return static_cast<char*>(workspace.allocate(static_cast<size_t>(size), workspace.context));
  };
  char* const x = allocate(buffers * bytes * problem.c);
  char* const y = allocate(buffers * bytes * problem.b);
  return Pipeline<FAMILY>{problem, used, machine, workspace, plan, bytes, x, y}.run(stream, {&even, &odd});
}

constexpr Configuration family[] = {
    {"overlapped passes", true, takes<matrix_family>, seconds<matrix_family>, launch<matrix_family>},
    {"overlapped passes strict", false, takes<strict_family>, seconds<strict_family>, launch<strict_family>},
};

}  // namespace

Configurations overlapped_pass_configurations() { return {family, static_cast<int>(std::size(family))}; }

#else

Configurations overlapped_pass_configurations() { return {nullptr, 0}; }

#endif

}  // namespace ksmm::hopper
