// A tile of the TF32 family as a configuration: which problems it takes, its cost, its launch. Host code.
#pragma once

#include <algorithm>
#include <cmath>

#include "../padded.h"
#include "tf32_launch.cuh"

namespace ksmm::hopper {

// The same tile for both precisions.
template <Access ACCESS, int PLANES, int BLOCKS, int ROWS, bool SPLIT, int K, int FRESH>
struct Tf32Configuration {
  template <Arithmetic ARITHMETIC>
  using Tile = Tf32Tile<ACCESS, PLANES, BLOCKS, ROWS, SPLIT, K, FRESH, ARITHMETIC>;
  using Any = Tile<Arithmetic::parts>;

  // Below 80 of c sums of 32 products err more than multiply-adds do, where X is badly scaled; of 16 they take longer.
  static constexpr int c_of_longer_sums = 80;
  using ShorterSums = Tf32Tile<ACCESS, PLANES, BLOCKS, ROWS, SPLIT, K, 16, Arithmetic::parts>;

  static bool suits(const Problem& problem) {
    if (problem.dtype != Dtype::float32 || problem.precision == Precision::strict) return false;
    if (problem.c > INT32_MAX / problem.d || problem.b > INT32_MAX / problem.d || problem.a > INT32_MAX) return false;
    // So few products multiply-adds sum more exactly, where X is badly scaled, or as fast. More than three sums of 16,
    // the last one of few, round once more for nearly nothing: 1.001 to 1.002 times strict's error at c = 52.
    const int least_c = ACCESS == Access::rows ? 64 : problem.c == 48 ? 48 : 56;
    if (problem.precision == Precision::compensated && problem.c < least_c) return false;
    switch (ACCESS) {
      // 16 bytes of Y are 4 n
      case Access::rows: return problem.layout == Layout::batch_last && problem.batch % 4 == 0;
      case Access::shifted: return problem.layout == Layout::batch_last && problem.c % shifted_classes == 0;
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
           tiles(problem) < INT32_MAX && rows_suit(problem, operands) &&
           can_describe(begin_of_x<Any>(operands), Dtype::float32, box_of_x<Any>(problem, operands)) &&
           can_describe(operands.weight, Dtype::float32, box_of_weight<Any>(problem, operands.weight_strides));
  }

  // Rows that begin at multiples of 16 bytes have faster tiles than those for any, whose long rows have to be counted.
  static bool rows_suit(const Problem& problem, const Operands& operands) {
    if (ACCESS != Access::shifted) return reinterpret_cast<uintptr_t>(operands.y) % 16 == 0;
    return !rows_fit(problem, operands) && shifted_classes * operands.x_stride < INT32_MAX;
  }

  struct Times {
    double stage, tile;  // seconds; of a tile beside its stages
  };

  // What an H200 took for compensated products in batch_first: fitted to 25,088 rows of 44 patterns (of six and eight
  // planes to others than of fewer), nearly all within a twentieth.
  static constexpr Times measured() {
    constexpr int rows = Any::rows;
    if (ACCESS == Access::sectors) return rows == 64 ? Times{2.93e-6, 3.2e-6} : Times{2.19e-6, 3.6e-6};
    if (PLANES == 8) return rows == 64 ? Times{2.29e-6, 4.6e-6} : Times{1.61e-6, 5.6e-6};
    if (PLANES == 6) return {1.78e-6, 2.2e-6};
    if (PLANES == 3) return {3.12e-6, 3.9e-6};
    if (PLANES == 4)
      return rows == 64 ? Times{1.69e-6, 3.1e-6} : rows == 48 ? Times{1.29e-6, 2.9e-6} : Times{0.99e-6, 2.0e-6};
    if (PLANES == 2)
      return rows == 128  ? Times{1.59e-6, 5.5e-6}
             : rows == 96 ? Times{1.13e-6, 3.1e-6}
             : rows == 64 ? Times{0.85e-6, 1.8e-6}
                          : Times{0.67e-6, 1.7e-6};
    return rows == 128  ? Times{2.49e-6, 4.2e-6}
           : rows == 96 ? Times{1.63e-6, 3.8e-6}
           : rows == 64 ? Times{1.22e-6, 2.9e-6}
                        : Times{1.02e-6, 2.3e-6};
  }

  // Stages as slow as the matrix units or the copies, then a store, at rates that an H200 reached.
  static Times expected(const Problem& problem, const Machine& machine) {
    const bool compensated = problem.precision == Precision::compensated;
    const double share = 1.0 / machine.multiprocessors;
    const double rate = machine.matrix_rate * share * (compensated ? (Any::buffers == 1 ? 0.88 : 0.80) / 6 : 0.9 / 2);
    const double copies = machine.cache_rate * share * (ACCESS == Access::sectors ? 0.55 : 0.75);
    const double products = 2.0 * Any::batch * Any::rows * PLANES * K / rate;
    const double store = 4.0 * Any::batch * Any::rows * PLANES / (0.68 * machine.cache_rate * share);
    const double more = !compensated       ? 1
                        : Any::rows == 128 ? 1.10
                        : Any::rows == 96  ? 1.03
                        : Any::rows == 64  ? 1.07
                                           : 1;
    return {more * std::max(products, (Any::x_bytes + Any::weight_bytes) / copies), more * store};
  }

  // How much longer all takes where rows begin anywhere.
  static constexpr double of_shifted = ACCESS == Access::shifted ? 1.2 : 1;

  // ... and with shorter sums than those that the times above are of: 1.12 and 1.31 for two patterns with c = 64.
  static double of_shorter_sums(const Problem& problem) {
    const bool shorter = FRESH > 16 && problem.c >= 64 && problem.c < c_of_longer_sums;
    return shorter && problem.precision == Precision::compensated ? 1.2 : 1;
  }

  // What X and Y cost memory: where rows of Y begin anywhere, part of its sectors are written twice.
  static double bytes(const Problem& problem) {
    const double rows = static_cast<double>(problem.a) * problem.d * problem.batch;
    return 4 * rows * (problem.c + problem.b * (ACCESS == Access::shifted ? 1.5 : 1));
  }

  // Tiles one after another on each multiprocessor.
  static double seconds(const Problem& problem, const Machine& machine) {
    const double share = 1.0 / machine.multiprocessors;
    Times times = expected(problem, machine);
    if (!Any::in_batch_last && problem.precision == Precision::compensated) {
      const double slower = 21 * 1.98e9 / (machine.cache_rate * share);  // than an H200
      const double cut_off = problem.d % PLANES == 0 ? 1 : 1.25;         // sectors of Y
      times = {slower * cut_off * measured().stage, slower * cut_off * measured().tile};
    }
    const double waves = std::ceil(tiles(problem) * share);
    const double steps = static_cast<double>((problem.c + K - 1) / K);
    const double work = waves * (steps * times.stage + times.tile) * of_shifted * of_shorter_sums(problem);
    return 3e-6 + 1e-6 + std::max(work, bytes(problem) / machine.memory_rate);
  }

  static cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace&,
                            cudaStream_t stream) {
    if (problem.precision != Precision::compensated)
      return launch_tile<Tile<Arithmetic::tf32>>(problem, operands, machine, stream);
    return launch_parts(problem, operands, machine, stream);
  }

  // All of it, or with halves what those are not exact enough for.
  template <class... Halves>
  static cudaError_t launch_parts(const Problem& problem, const Operands& operands, const Machine& machine,
                                  cudaStream_t stream, const Halves&... halves) {
    return problem.c < c_of_longer_sums ? launch_tile<ShorterSums>(problem, operands, machine, stream, halves...)
                                        : launch_tile<Any>(problem, operands, machine, stream, halves...);
  }

  static constexpr Configuration as(const char* name) { return {name, true, takes, seconds, launch}; }
};

}  // namespace ksmm::hopper
