// What products in several passes have in common. Host code.
#pragma once

#include <algorithm>
#include <vector>

#include "../configuration.h"
#include "../transpose.cuh"

namespace ksmm::hopper {

// What goes from pass to pass takes so much memory at most: the batch is taken in parts.
constexpr int64_t most_bytes_between_passes = int64_t{1} << 30;

// What happens to some rows of the batch: X is transposed and multiplied, and in three passes Y is transposed back.
struct Passes {
  Transposition x, y;
  Problem product;
  Operands of_product;
};

// Those of a family that take the product.
inline std::vector<const Configuration*> takers_of(const Passes& passes, Configurations family,
                                                   const Machine& machine) {
  std::vector<const Configuration*> takers;
  for (const Configuration* each = family.data; each != family.data + family.count; ++each)
    if (each->takes(passes.product, passes.of_product, machine)) takers.push_back(each);
  return takers;
}

// The fastest of them by the cost model; null where there is none.
inline const Configuration* fastest_of(const std::vector<const Configuration*>& takers, const Problem& product,
                                       const Machine& machine) {
  const Configuration* best = nullptr;
  double least = 0;
  for (const Configuration* each : takers) {
    const double seconds = each->seconds(product, machine);
    if (best == nullptr || seconds < least) least = seconds, best = each;
  }
  return best;
}

inline const Configuration* choose_product(Configurations family, const Passes& passes, const Machine& machine) {
  return fastest_of(takers_of(passes, family, machine), passes.product, machine);
}

// The weight for the products of all parts, of which `passes` are some.
inline cudaError_t prepare_weight(const Configuration& configuration, const Passes& passes, Operands* operands,
                                  const Workspace& workspace, cudaStream_t stream) {
  if (configuration.prepare == nullptr) return cudaSuccess;
  Operands of_product = passes.of_product;
  const cudaError_t error = configuration.prepare(passes.product, &of_product, workspace, stream);
  operands->prepared = of_product.prepared;
  return error;
}

// How many rows of the batch are taken at a time, of which so many features go from pass to pass.
inline int64_t rows_of_part(const Problem& problem, int64_t features) {
  constexpr int64_t multiple = 256;  // whole tiles
  const int64_t bytes = problem.batch * features * size_of(problem.dtype);
  const int64_t parts = std::max<int64_t>(1, parts_of(bytes, most_bytes_between_passes));
  return parts_of(parts_of(problem.batch, parts), multiple) * multiple;
}

// X and Y, both contiguous in batch_first, from a row of the batch on.
inline Operands from_row(const Problem& problem, Operands operands, int64_t n) {
  const int64_t place = n * problem.a * problem.d * size_of(problem.dtype);
  operands.x = static_cast<const char*>(operands.x) + place * problem.c;
  operands.y = static_cast<char*>(operands.y) + place * problem.b;
  return operands;
}

}  // namespace ksmm::hopper
