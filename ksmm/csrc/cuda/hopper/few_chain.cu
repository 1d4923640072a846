// The chains that the kernel for a handful of rows takes, how they are divided, and how long they take.
#include <algorithm>
#include <cmath>

#include "../arrange.cuh"
#include "chain_kernel.h"

#ifdef KSMM_SM90A
#include "few_chain_kernel.cuh"
#endif

namespace ksmm::hopper {

#ifdef KSMM_SM90A

namespace {

constexpr int64_t most_batch = 32;
constexpr int most_cluster = 8;    // that every device with clusters runs
constexpr int tiles_of_block = 8;  // of the outer factor, which a cluster's block takes before there is another cluster
constexpr int64_t least_part = 64;  // of c, that it is worth adding up sums for
constexpr double most_fitted_bytes = 200e3;

int groups_of(const Problem& problem) { return problem.batch <= 8 ? 1 : problem.batch <= 16 ? 2 : 4; }

// group_stride: from one i (of the inner factor) or j (of the outer one) to the next.
FewChainFactor describe(const Problem& problem, const Operands& operands, int64_t group_stride, int64_t tiles) {
  FewChainFactor factor;
  factor.weight = static_cast<const uint16_t*>(operands.weight);
  factor.group_stride = group_stride, factor.row_stride = operands.weight_strides[1];
  factor.b = static_cast<int>(problem.b), factor.c = static_cast<int>(problem.c);
  factor.row_tiles = static_cast<int>(parts_of(problem.b, few_chain_tile));
  factor.tiles = static_cast<int>(tiles);
  const int64_t most = std::max<int64_t>(1, std::min(few_chain_warps / tiles, problem.c / least_part));
  factor.part = static_cast<int>(parts_of(parts_of(problem.c, most), few_chain_step) * few_chain_step);
  factor.parts = static_cast<int>(parts_of(problem.c, factor.part));
  return factor;
}

FewChainTask divide(const Problem& inner, const Operands& of_inner, const Problem& outer, const Operands& of_outer,
                    const Machine& machine) {
  FewChainTask task;
  task.cluster = most_cluster;
  while (outer.d % task.cluster != 0) task.cluster /= 2;
  const int64_t inner_tiles = parts_of(inner.a * parts_of(inner.b, few_chain_tile), task.cluster);
  const int64_t planes = outer.d / task.cluster, rows = parts_of(outer.b, few_chain_tile);
  // half of the multiprocessors at most: the rest of a group of them may be too few for a cluster
  const int64_t most = std::max<int64_t>(1, machine.multiprocessors / 2 / task.cluster);
  const int64_t wanted = std::min({parts_of(planes * rows, tiles_of_block), rows, most});
  const int64_t of_plane = parts_of(rows, wanted);
  task.clusters = static_cast<int>(parts_of(rows, of_plane));
  task.inner = describe(inner, of_inner, of_inner.weight_strides[0], inner_tiles);
  task.outer = describe(outer, of_outer, of_outer.weight_strides[3], planes * of_plane);
  task.x = static_cast<const uint16_t*>(of_inner.x), task.x_stride = of_inner.x_stride;
  task.bias = static_cast<const uint16_t*>(of_outer.bias), task.y = static_cast<uint16_t*>(of_outer.y);
  task.batch = static_cast<int>(inner.batch), task.groups_i = static_cast<int>(inner.a);
  task.planes = static_cast<int>(outer.d);
  task.pitch = static_cast<int>(parts_of(outer.c, few_chain_step) * few_chain_step);
  return task;
}

int64_t shared_bytes(const FewChainTask& task, int groups) {
  const int64_t rows = 8 * groups;
  const int64_t items = std::max(task.inner.tiles * task.inner.parts, task.outer.tiles * task.outer.parts);
  return task.planes / task.cluster * rows * task.pitch * 2 + items * few_chain_tile * rows * 4;
}

bool fits(const Problem& inner, const Problem& outer, const Machine& machine) {
  if (machine.capability != 90 || inner.layout != Layout::batch_first || inner.dtype == Dtype::float32 ||
      inner.batch > most_batch || inner.d != 1 || outer.a != 1 || inner.c % 8 != 0 || outer.c % 8 != 0)
    return false;
  if (std::max({inner.a * inner.b, inner.a * inner.c, outer.b * outer.d}) > INT32_MAX / 64) return false;
  return shared_bytes(divide(inner, {}, outer, {}, machine), groups_of(inner)) <= machine.shared_limit;
}

bool reads(const Operands& operands) {
  return reinterpret_cast<uintptr_t>(operands.x) % 16 == 0 && operands.x_stride % 8 == 0;
}

template <class T, int GROUPS>
cudaError_t launch(const FewChainTask& task, cudaStream_t stream) {
  const int64_t blocks = parts_of(task.batch, 8 * GROUPS) * task.clusters * task.cluster;
  return launch_overlapping(few_chain_kernel<T, GROUPS>, blocks, few_chain_threads, shared_bytes(task, GROUPS),
                            task.cluster, stream, task);
}

template <class T>
cudaError_t launch(const FewChainTask& task, int groups, cudaStream_t stream) {
  return groups == 1   ? launch<T, 1>(task, stream)
         : groups == 2 ? launch<T, 2>(task, stream)
                       : launch<T, 4>(task, stream);
}

cudaError_t multiply(const Problem& inner, const Operands& of_inner, const Problem& outer, const Operands& of_outer,
                     const Machine& machine, cudaStream_t stream) {
  if (!fits(inner, outer, machine) || !reads(of_inner) || !is_arranged(inner, of_inner) ||
      !is_arranged(outer, of_outer))
    return cudaErrorNotSupported;
  const FewChainTask task = divide(inner, of_inner, outer, of_outer, machine);
  return inner.dtype == Dtype::float16 ? launch<float16>(task, groups_of(inner), stream)
                                       : launch<bfloat16>(task, groups_of(inner), stream);
}

// Fitted to six chains on an H200, within 12 %: what a launch and the way through the cluster take, and the weights
// that a block reads, which are in the L2 cache. Where a block reads more than it did there, nothing is known, and
// infinity leaves the chain to two launches.
double predict(const Problem& inner, const Problem& outer, const Machine& machine) {
  if (!fits(inner, outer, machine)) return INFINITY;
  const FewChainTask task = divide(inner, {}, outer, {}, machine);
  const auto bytes = [](const FewChainFactor& factor) { return 2.0 * factor.tiles * few_chain_tile * factor.c; };
  const double of_block = bytes(task.inner) + bytes(task.outer);
  if (of_block > most_fitted_bytes) return INFINITY;
  const int groups = groups_of(inner);
  const double launch = groups == 1 ? 4.8e-6 : groups == 2 ? 5.6e-6 : 8.4e-6;
  const double rate = groups == 1 ? 55e9 : groups == 2 ? 46e9 : 33e9;
  const double weights = 2.0 * static_cast<double>(inner.a * inner.b * inner.c + outer.b * outer.c * outer.d);
  return launch + of_block / rate + weights / (0.91 * machine.memory_rate);
}

}  // namespace

const ChainKernel few_chain = {predict, multiply};

#else

const ChainKernel few_chain = no_chain_kernel;

#endif

}  // namespace ksmm::hopper
