// Writes W in the order of the stages of a tile of the planes kernel.
#include <algorithm>

#include "overlap.cuh"
#include "planes_weight.cuh"
#include "planes_weight.h"

namespace ksmm::hopper {

#ifdef KSMM_SM90A

namespace {

constexpr int threads = 256;

__global__ void __launch_bounds__(threads) planes_weight_kernel(const PlanesWeightTask task) {
  wait_for_kernels_before();
  const int64_t step = static_cast<int64_t>(gridDim.x) * threads;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x; at < task.vectors; at += step)
    task.stages[at] = planes_weight_vector(task, at);
}

}  // namespace

cudaError_t write_planes_stages(const Problem& problem, const Operands& operands, const PlanesStages& shape,
                                void* stages, cudaStream_t stream) {
  const PlanesWeightTask task = planes_weight_task(problem, operands, shape, stages);
  const int64_t blocks = std::min<int64_t>(parts_of(task.vectors, threads), 65535);
  return launch_overlapping(planes_weight_kernel, blocks, threads, 0, 1, stream, task);
}

#endif

}  // namespace ksmm::hopper
