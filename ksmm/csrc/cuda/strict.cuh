// Launches the strict float32 kernel.
#pragma once

#include "configuration.h"
#include "launch.cuh"
#include "strict_family.cuh"
#include "strict_kernel.cuh"

namespace ksmm {

// Enqueues the product; returns the launch's error.
cudaError_t multiply_strict(const Problem& problem, const Operands& operands, const Machine& machine,
                            cudaStream_t stream);

// make_task, but for weights that are contiguous along r: the strict kernel reads them in vectors.
template <class Tile>
Task<float> make_strict_task(const Problem& problem, const Operands& operands) {
  Task<float> task = make_task<float, 4, Tile::y_vector>(problem, operands, Tile::n, Tile::r, Tile::j);
  const Strides extents = {problem.a, problem.b, problem.c, problem.d};
  task.weight_vectors = has_vectors<float, 4>(task.weight, task.weight_strides, extents, Along::rows, Tile::j);
  return task;
}

}  // namespace ksmm
