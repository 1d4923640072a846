// A tile of the TF32 family that multiplies halves, as a configuration. Host code.
#pragma once

#include "halves_weight.cuh"
#include "tf32_family.cuh"

namespace ksmm::hopper {

// Uneven tiles of W are left to the same tile in parts: K and FRESH are those of the halves, PARTS_K and PARTS_FRESH its.
template <Access ACCESS, int PLANES, int BLOCKS, int ROWS, bool SPLIT, int K, int FRESH, int PARTS_K = K,
          int PARTS_FRESH = FRESH>
struct HalvesConfiguration {
  using Tile = Tf32Tile<ACCESS, PLANES, BLOCKS, ROWS, SPLIT, K, FRESH, Arithmetic::halves>;
  using Uneven = Tf32Configuration<ACCESS, PLANES, BLOCKS, ROWS, SPLIT, PARTS_K, PARTS_FRESH>;

  static constexpr char identity = 0;  // whose address says that a weight is prepared for this tile

  static bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
    return problem.precision == Precision::compensated && Uneven::takes(problem, operands, machine) &&
           machine.shared_limit >= Tile::shared_bytes && problem.c <= INT32_MAX / problem.b / PLANES;
  }

  static double seconds(const Problem& problem, const Machine& machine) {
    return 4e-6 + 0.6 * Uneven::seconds(problem, machine);
  }

  static cudaError_t prepare(const Problem& problem, Operands* operands, const Workspace& workspace,
                             cudaStream_t stream) {
    if (operands->prepared.owner == &identity) return cudaSuccess;
    HalvesTask task = {};
    task.weight = static_cast<const float*>(operands->weight);
    for (int n = 0; n < 4; ++n) task.strides[n] = operands->weight_strides[n];
    task.b = static_cast<int>(problem.b), task.c = static_cast<int>(problem.c), task.d = static_cast<int>(problem.d);
    task.row_tiles = static_cast<int>(parts_of(problem.b, Tile::rows));
    task.plane_tiles = static_cast<int>(parts_of(problem.d, PLANES));
    const int64_t tiles = problem.a * task.plane_tiles * task.row_tiles;
    const auto allocate = [&](int64_t bytes) {
      return workspace.allocate(static_cast<size_t>(bytes), workspace.context);
    };
    task.stages = static_cast<char*>(allocate(tiles * parts_of(problem.c, Tile::k) * Tile::weight_bytes));
    task.scales = static_cast<float*>(allocate(tiles * PLANES * Tile::rows * 4));
    task.uneven = static_cast<int*>(allocate(tiles * 4));
    operands->prepared = {&identity, {task.stages, task.scales, task.uneven}};
    return launch_overlapping(prepare_halves<Tile>, tiles, halves_threads, 0, 1, stream, task);
  }

  static cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine,
                            const Workspace& workspace, cudaStream_t stream) {
    Operands used = operands;
    cudaError_t error = prepare(problem, &used, workspace, stream);
    const void* const* places = used.prepared.places;
    const HalvesOfWeight halves = {static_cast<const char*>(places[0]), static_cast<const float*>(places[1]),
                                   static_cast<const int*>(places[2])};
    if (error == cudaSuccess) error = launch_tile<Tile>(problem, used, machine, stream, halves);
    if (error != cudaSuccess) return error;
    return launch_tile<typename Uneven::Any>(problem, used, machine, stream, halves);
  }

  static constexpr Configuration as(const char* name) { return {name, true, takes, seconds, launch, prepare}; }
};

}  // namespace ksmm::hopper
