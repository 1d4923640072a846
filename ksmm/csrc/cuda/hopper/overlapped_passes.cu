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

// How many rows of the batch are taken at a time, and by how many multiprocessors they are multiplied while the others
// transpose. The first part has fewer rows than the others where that pays, and so has the last one, since the first X
// and the last Y are transposed with nothing beside them.
struct Plan {
  int64_t edge, rows;
  int multiplying;
  double seconds;

  int64_t parts(int64_t batch) const { return 1 + parts_of(batch - edge, rows); }
  int64_t first_row(int64_t part, int64_t batch) const {
    return part == 0 ? 0 : std::min(batch, edge + (part - 1) * rows);
  }
  int64_t rows_of(int64_t part, int64_t batch) const { return first_row(part + 1, batch) - first_row(part, batch); }
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

// So many products of as many rows.
struct Products {
  int64_t count;
  Problem problem;
  const Configuration* configuration;
};
template <Family FAMILY>
Products products_of(const Problem& problem, const Operands& operands, const Machine& machine, int64_t count,
                     int64_t rows) {
  const Passes passes = describe_passes(problem, operands, rows, nullptr, nullptr);
  return {count, passes.product, choose_product<FAMILY>(passes, machine)};
}

// While a part is multiplied, others are transposed, at no more than 1.8 times the share of the memory's rate of these
// multiprocessors, and after that by all of them. The first X and the last Y have nothing beside them. Where
// memory rules it moves what is transposed and, half as much, what is multiplied, at 0.85 of its rate. A part more
// costs a start. Fitted to 40 problems on an H200, five of them in 16 bits, where more than five parts were never the
// fastest by much.
double seconds_of(const Problem& problem, const Products (&products)[3], const Machine& machine, const Plan& plan) {
  const double start = problem.dtype == Dtype::float32 ? 16e-6 : 40e-6;
  const Machine multiplying = part_of(machine, plan.multiplying);
  double multiplied = 0;
  for (const Products& each : products)
    multiplied += static_cast<double>(each.count) * each.configuration->seconds(each.problem, multiplying);
  const double rate = transposition_rate(problem, machine), all = transposed_bytes(problem, problem.b + problem.c);
  const auto share_of_batch = [&](const Products& of) {
    return static_cast<double>(of.problem.batch) / static_cast<double>(problem.batch);
  };
  const double alone = transposed_bytes(problem, problem.c) * share_of_batch(products[0]) +
                       transposed_bytes(problem, problem.b) * share_of_batch(products[2]);
  const double aside = 1.0 - static_cast<double>(plan.multiplying) / machine.multiprocessors;
  const double left = std::max(0.0, all - alone - multiplied * 1.8 * aside * machine.memory_rate);
  const double memory = (all - alone + 0.5 * all) / (0.85 * machine.memory_rate);
  return alone / rate + std::max(multiplied + left / rate, memory) +
         static_cast<double>(plan.parts(problem.batch)) * start;
}

template <Family FAMILY>
Plan plan_for(const Problem& problem, const Operands& operands, const Machine& machine) {
  Plan best = {0, 0, 0, 1e9};
  const int64_t features = problem.a * problem.d * (problem.b + problem.c), batch = problem.batch;
  const int64_t most = rows_of_part(problem, parts_of_workspace * features);
  const auto whole = [](int64_t rows, int64_t by) {
    return parts_of(parts_of(rows, by), multiple_of_rows) * multiple_of_rows;
  };
  for (int64_t parts = std::max<int64_t>(2, parts_of(batch, most)), last = parts + 4; parts < last; ++parts)
    for (int64_t of_edge = 1; of_edge <= (parts == 2 ? 1 : 3); ++of_edge) {  // of the others' rows, one in so many
      Plan plan = {0, whole(of_edge * batch, (parts - 2) * of_edge + 2), 0, 0};
      plan.edge = whole(plan.rows, of_edge);
      if (plan.edge >= batch || plan.rows > most) continue;
      const int64_t count = plan.parts(batch);
      const auto of = [&](int64_t times, int64_t part) {
        return products_of<FAMILY>(problem, operands, machine, times, plan.rows_of(part, batch));
      };
      const Products products[3] = {of(1, 0), of(count - 2, 1), of(1, count - 1)};
      if (std::any_of(products, products + 3, [](const Products& each) { return each.configuration == nullptr; }))
        continue;
      for (int aside = 4; aside <= machine.multiprocessors / 3; aside += 4) {
        plan.multiplying = machine.multiprocessors - aside;
        plan.seconds = seconds_of(problem, products, machine, plan);
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
    return describe_passes(problem, from_row(problem, operands, plan.first_row(index, problem.batch)),
                           plan.rows_of(index, problem.batch), x + index % buffers * bytes * problem.c,
                           y + index % buffers * bytes * problem.b);
  }

  cudaError_t multiply(const Passes& passes, cudaStream_t stream) const {
    const Configuration* configuration = choose_product<FAMILY>(passes, machine);
    if (configuration == nullptr) return cudaErrorInvalidValue;
    return configuration->launch(passes.product, passes.of_product, part_of(machine, plan.multiplying), workspace,
                                 stream);
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
