// A tile of the TF32 family as a configuration: which problems it takes, its cost, its launch. Host code.
#pragma once

#include <algorithm>
#include <cmath>

#include "tf32_launch.cuh"

namespace ksmm::hopper {

// The same tile for both precisions.
template <Access ACCESS, int PLANES, int BLOCKS, int WARPGROUP_ROWS, bool SPLIT_B, int K, int FRESH>
struct Tf32Configuration {
  template <bool COMPENSATED>
  using Tile = Tf32Tile<ACCESS, PLANES, BLOCKS, WARPGROUP_ROWS, SPLIT_B, K, FRESH, COMPENSATED>;
  using Any = Tile<true>;

  static bool suits(const Problem& problem) {
    if (problem.dtype != Dtype::float32 || problem.precision == Precision::strict) return false;
    if (problem.c > INT32_MAX / problem.d || problem.b > INT32_MAX / problem.d || problem.a > INT32_MAX) return false;
    // the corrections are not worth their while, and groups of 16 of c would be padded
    if (problem.precision == Precision::compensated && problem.c < 32) return false;
    switch (ACCESS) {
      // 16 bytes of Y are 4 n
      case Access::rows: return problem.layout == Layout::batch_last && problem.batch % 4 == 0;
      case Access::runs: return problem.layout == Layout::batch_first && problem.d == PLANES;
      case Access::sectors: break;
    }
    return problem.layout == Layout::batch_first && problem.d > 8 && problem.d % 4 == 0;
  }

  static double tiles(const Problem& problem) {
    const auto parts = [](int64_t size, int tile) { return static_cast<double>((size + tile - 1) / tile); };
    return parts(problem.b, Any::rows) * parts(problem.batch, Any::batch) * parts(problem.d, PLANES) *
           static_cast<double>(problem.a);
  }

  static bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
    return machine.capability == 90 && machine.shared_limit >= Any::shared_bytes && suits(problem) &&
           tiles(problem) < INT32_MAX && reinterpret_cast<uintptr_t>(operands.y) % 16 == 0 &&
           can_describe(operands.x, Dtype::float32, box_of_x<Any>(problem, operands.x_stride)) &&
           can_describe(operands.weight, Dtype::float32, box_of_weight<Any>(problem, operands.weight_strides));
  }

  // What an H200 took over what the stages and stores below come to: more where the sums fill the registers, where X
  // comes element by element (1 and 3 planes), and where the tile is 8 planes deep.
  static double measured_over_expected(const Problem& problem) {
    if (problem.precision != Precision::compensated) return 1;
    if (ACCESS == Access::rows) return Any::rows == 128 ? 1.10 : Any::rows == 96 ? 1.03 : Any::rows == 64 ? 1.07 : 1;
    if (ACCESS == Access::sectors) return 1.05;
    if (PLANES == 3 || PLANES == 8) return 1.4;
    if (Any::rows == 96) return PLANES == 1 ? 1.05 : 1.28;
    return Any::rows == 128 ? 1.26 : Any::rows == 64 ? 1.12 : Any::rows == 32 && PLANES == 4 ? 0.88 : 1.0;
  }

  // Tiles one after another on each multiprocessor: stages, as slow as the matrix units or the copies, and the stores.
  // The rates are what an H200 reached.
  static double seconds(const Problem& problem, const Machine& machine) {
    const bool compensated = problem.precision == Precision::compensated;
    const double share = 1.0 / machine.multiprocessors;
    const double rate = machine.matrix_rate * share * (compensated ? (Any::buffers == 1 ? 0.88 : 0.80) / 6 : 0.9 / 2);
    const double copies = machine.cache_rate * share * (ACCESS == Access::sectors ? 0.55 : 0.75);
    const double stage_products = 2.0 * Any::batch * Any::rows * PLANES * K;
    const double stage = std::max(stage_products / rate, (Any::x_bytes + Any::weight_bytes) / copies);
    const double store =
        4.0 * Any::batch * Any::rows * PLANES / ((PLANES == 8 ? 0.35 : 0.68) * machine.cache_rate * share);
    const double waves = std::ceil(tiles(problem) * share);
    const double steps = static_cast<double>((problem.c + K - 1) / K);
    const double work = measured_over_expected(problem) * waves * (steps * stage + store);
    const double features = static_cast<double>(problem.a * problem.d * (problem.b + problem.c));
    return 3e-6 + 1e-6 + std::max(work, 4.0 * static_cast<double>(problem.batch) * features / machine.memory_rate);
  }

  static cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace&,
                            cudaStream_t stream) {
    return problem.precision == Precision::compensated ? launch_tile<Tile<true>>(problem, operands, machine, stream)
                                                       : launch_tile<Tile<false>>(problem, operands, machine, stream);
  }

  static constexpr Configuration as(const char* name) { return {name, true, takes, seconds, launch}; }
};

}  // namespace ksmm::hopper
