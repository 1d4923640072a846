// The family "shifted": which problems its tiles take, and how long they are expected to need.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "../padded.h"
#include "shifted.h"

#if defined(KSMM_SM90A)
#include "shifted_launch.cuh"
#endif

namespace ksmm::hopper {

#if defined(KSMM_SM90A)
namespace {

// Microseconds of a tile: for each 64 k, and for each 64 r on their way out; and what each tile takes beside. Fitted to
// what an H200 takes for 20 patterns with 33 to 25,087 columns (docs/designs.md, "Rows that begin anywhere").
struct TileTimes {
  double stage, part;
};
constexpr double time_of_any = 0.88;
constexpr TileTimes times_of(ShiftedSize size) {
  return size.columns == 256   ? TileTimes{0.68, 0.53}
         : size.columns == 192 ? TileTimes{0.88, 0.67}
         : size.columns == 128 ? TileTimes{1.04, 0.83}
         : size.rows == 256    ? TileTimes{0.79, 0.52}
                               : TileTimes{0.91, 0.37};
}

// Whether rows of X or Y begin between multiples of 16 bytes, and the type is one of 16 bits.
bool begins_anywhere(const Problem& problem, const Operands& operands, const Machine& machine) {
  return machine.capability == 90 && problem.dtype != Dtype::float32 && problem.layout == Layout::batch_last &&
         problem.batch > 0 && !rows_fit(problem, operands);
}

// Whether the boxes of X take it, and those of W.
bool boxes_fit(const GemmView& view, int columns) {
  const int64_t stride = view.x_strides.j, longest = 16 * std::max(stride, view.rows) + 16;
  return longest < INT32_MAX && view.c % shifted_classes(stride, view.groups_j, 8) == 0 &&
         can_describe(view.weight, view.dtype, gemm_weight(view, columns));
}

template <int COLUMNS, int ROWS>
struct Shifted {
  static constexpr ShiftedSize size = {COLUMNS, ROWS};

  static bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
    GemmView view;
    if (!begins_anywhere(problem, operands, machine)) return false;
    view_problem(problem, operands, &view);
    const double tiles = static_cast<double>(view.groups_i) * view.groups_j * parts_of(view.b, COLUMNS) *
                         parts_of(view.rows, with_shifted_tile(size, [](auto tile) { return tile.step; }));
    return tiles < INT32_MAX / 2 && view.b % shifted_classes(view.rows, view.groups_j, 8) == 0 &&
           boxes_fit(view, COLUMNS);
  }

  static double seconds(const Problem& problem, const Machine& machine) {
    const auto& [a, b, c, d, batch, dtype, layout, precision] = problem;
    const auto [step, blocks] =
        with_shifted_tile(size, [](auto tile) { return std::pair<int, int>(tile.step, tile.blocks); });
    const double planes = static_cast<double>(a) * d;
    const double memory = 2 * planes * batch * (c + 1.25 * b) / (0.95 * machine.memory_rate);
    const int64_t row_tiles = batch <= ROWS ? 1 : parts_of(batch, step);
    const auto tiles = static_cast<int64_t>(planes) * parts_of(b, COLUMNS) * row_tiles;
    const int64_t rounds = parts_of(tiles, static_cast<int64_t>(blocks) * machine.multiprocessors);
    constexpr TileTimes times = times_of(size);
    const double tile =
        time_of_any + times.stage * parts_of(c, gemm_step) + times.part * parts_of(std::min<int64_t>(b, COLUMNS), 64);
    const int64_t classes = shifted_classes(batch, d, 8);  // of rows: boxes for the copy engine
    const double boxes = classes == 8 ? 1.16 : classes == 4 ? 1.12 : 1.0;
    const double alone = blocks == 2 && tiles <= machine.multiprocessors ? 0.57 : 1.0;
    return 3.2e-6 + std::max(memory, 1e-6 * boxes * alone * tile * rounds);
  }

  static cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace&,
                            cudaStream_t stream) {
    GemmView view;
    view_problem(problem, operands, &view);
    return view.dtype == Dtype::float16 ? launch_shifted_float16(view, size, machine, stream)
                                        : launch_shifted_bfloat16(view, size, machine, stream);
  }

  static constexpr Configuration as(const char* name) { return {name, true, takes, seconds, launch}; }
};

// Microseconds of a block alone, and of each where a multiprocessor has several, and for each 64 k: within 7 % of what
// an H200 takes for 20 patterns with 9 to 2,001 columns in the mean.
struct SingleTimes {
  double alone, stage_alone, each, stage;
};
constexpr SingleTimes times_of_single(int columns) {
  return columns == 192   ? SingleTimes{0.18, 0.88, 1.18, 0.89}
         : columns == 128 ? SingleTimes{0.13, 0.66, 1.45, 0.35}
                          : SingleTimes{0, 0.48, 0.79, 0.25};
}

// Blocks of one tile.
template <int COLUMNS>
struct Single {
  using Tile = ShiftedSingleTile<COLUMNS / 64>;

  static int64_t tiles(const Problem& problem) {
    return problem.a * problem.d * parts_of(problem.b, COLUMNS) * parts_of(problem.batch, Tile::step);
  }
  // Of shared memory, where rows of X are as far apart as they may be.
  static int64_t bytes(int64_t c) { return Tile::shared_bytes(3, static_cast<int>(parts_of(c, gemm_step))); }

  static bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
    GemmView view;
    if (!begins_anywhere(problem, operands, machine) || problem.c > gemm_step * Tile::most_steps) return false;
    view_problem(problem, operands, &view);
    return static_cast<double>(tiles(problem)) < INT32_MAX / 2 && bytes(problem.c) <= machine.shared_limit &&
           boxes_fit(view, COLUMNS);
  }

  static double seconds(const Problem& problem, const Machine& machine) {
    const int64_t stages = parts_of(problem.c, gemm_step);
    const auto blocks = std::min<int64_t>(6, 228 * 1024 / (bytes(problem.c) + 1024));  // of a multiprocessor
    const double share = 1.0 * tiles(problem) / machine.multiprocessors;
    constexpr SingleTimes times = times_of_single(COLUMNS);
    const double alone = times.alone + times.stage_alone * stages, each = times.each + times.stage * stages;
    return 1.5e-6 + 1e-6 * std::max(alone * std::ceil(share / blocks), each * share);
  }

  static cudaError_t launch(const Problem& problem, const Operands& operands, const Machine&, const Workspace&,
                            cudaStream_t stream) {
    GemmView view;
    view_problem(problem, operands, &view);
    return view.dtype == Dtype::float16 ? launch_shifted_single_float16(view, COLUMNS, stream)
                                        : launch_shifted_single_bfloat16(view, COLUMNS, stream);
  }

  static constexpr Configuration as(const char* name) { return {name, true, takes, seconds, launch}; }
};

constexpr Configuration family[] = {
    Single<64>::as("shifted single r64"),       Single<128>::as("shifted single r128"),
    Single<192>::as("shifted single r192"),     Shifted<64, 128>::as("shifted r64 n128"),
    Shifted<64, 256>::as("shifted r64 n256"),   Shifted<128, 256>::as("shifted r128 n256"),
    Shifted<192, 192>::as("shifted r192 n192"), Shifted<256, 128>::as("shifted r256 n128"),
};

}  // namespace

Configurations shifted_configurations() { return {family, static_cast<int>(std::size(family))}; }

#else

Configurations shifted_configurations() { return {nullptr, 0}; }

#endif

}  // namespace ksmm::hopper
