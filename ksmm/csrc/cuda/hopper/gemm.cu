// The family of tiles of the gemm kernels: which problems they take, and how long they are expected to need.
#include <algorithm>
#include <cmath>

#include "gemm.h"

#if defined(KSMM_SM90A)
#include "gemm_launch.cuh"

namespace ksmm::hopper {
namespace {

constexpr GemmTile tiles[] = {{GemmHold::resident, 32},     {GemmHold::resident, 48},  {GemmHold::resident, 64},
                              {GemmHold::resident, 96},     {GemmHold::resident, 128}, {GemmHold::resident, 192},
                              {GemmHold::resident, 256},    {GemmHold::streamed, 64},  {GemmHold::streamed, 96},
                              {GemmHold::streamed, 128},    {GemmHold::streamed, 192}, {GemmHold::streamed, 256},
                              {GemmHold::alternating, 128}, {GemmHold::wide, 64},      {GemmHold::wide, 96},
                              {GemmHold::wide, 128},        {GemmHold::wide, 192}};

double rounded_up(double size, double multiple) { return std::ceil(size / multiple) * multiple; }

int64_t steps(const GemmView& view) { return (view.c + gemm_step - 1) / gemm_step; }

// W in shared memory, whole, with two stages for each warpgroup beside it at least.
template <int COLUMNS, int BLOCKS, int WARPGROUPS, int BUFFERS>
bool fits(const GemmView& view, ResidentTile<COLUMNS, BLOCKS, WARPGROUPS, BUFFERS> tile, const Machine& machine) {
  return view.b <= COLUMNS && decltype(tile)::slots(steps(view), 1, machine.shared_limit) >= 2;
}
template <int COLUMNS, int STAGES, int BUFFERS>
bool fits(const GemmView& view, StreamedTile<COLUMNS, STAGES, BUFFERS> tile, const Machine& machine) {
  // Y is written 64 columns at a time, which must not reach into the next tile
  return (view.b <= COLUMNS || COLUMNS % 64 == 0) && decltype(tile)::shared_bytes <= machine.shared_limit;
}
template <int COLUMNS, int STAGES, bool WIDE>
bool fits(const GemmView& view, AlternatingTile<COLUMNS, STAGES, WIDE> tile, const Machine& machine) {
  return (!WIDE || view.rows_contiguous) && decltype(tile)::shared_bytes <= machine.shared_limit;
}

// How a tile cuts the problem.
struct Cut {
  double rows, parts;  // of n that a tile has; how many tiles run at once
};
template <int COLUMNS, int BLOCKS, int WARPGROUPS, int BUFFERS>
Cut cut_of(ResidentTile<COLUMNS, BLOCKS, WARPGROUPS, BUFFERS>, const Machine& machine) {
  return {BLOCKS * 64.0, 1.0 * machine.multiprocessors};
}
template <int COLUMNS, int STAGES, int BUFFERS>
Cut cut_of(StreamedTile<COLUMNS, STAGES, BUFFERS>, const Machine& machine) {
  return {256, machine.multiprocessors / 2.0};
}
template <int COLUMNS, int STAGES, bool WIDE>
Cut cut_of(AlternatingTile<COLUMNS, STAGES, WIDE>, const Machine& machine) {
  return {256, machine.multiprocessors / 2.0};
}

// How much longer than others a tile takes to read and write the same: measured.
double slowness(const GemmView& view, GemmTile tile) {
  const bool whole = view.b % 128 == 0 || (view.b >= 96 && view.b < 128),
             writes = view.c <= 128 || view.b >= 4 * view.c;
  switch (tile.hold) {
    case GemmHold::resident: return view.b <= 64 && view.c <= 128 ? 1.0 : 1.1;
    case GemmHold::streamed: return 1.05;
    case GemmHold::alternating: return whole && writes ? 1.02 : 1.15;
    default: break;
  }
  if (view.b > tile.columns) return view.b < 4 * view.c ? 1.05 : view.c > 128 ? 1.0 : 1.12;
  return 0.95 + 0.06 * (tile.columns - static_cast<double>(view.b)) / static_cast<double>(view.b);
}

}  // namespace

bool view_problem(const Problem& problem, const Operands& operands, GemmView* view) {
  const bool last = problem.layout == Layout::batch_last;
  if (!last && problem.d != 1) return false;
  const int64_t stride = operands.x_stride, batch = problem.batch, b = problem.b, c = problem.c, d = problem.d;
  view->dtype = problem.dtype;
  view->rows_contiguous = last;
  view->groups_i = problem.a, view->groups_j = d, view->rows = batch, view->b = b, view->c = c;
  view->x = operands.x, view->weight = operands.weight, view->bias = operands.bias, view->y = operands.y;
  std::copy(operands.weight_strides, operands.weight_strides + 4, view->weight_strides);
  view->x_strides = last ? GemmStrides{c * d * stride, stride, 1, d * stride} : GemmStrides{c, 1, stride, 1};
  view->y_strides = last ? GemmStrides{b * d * batch, batch, 1, d * batch} : GemmStrides{b, 1, problem.a * b, 1};
  return true;
}

bool gemm_takes(const GemmView& view, GemmTile tile, const Machine& machine) {
  if (machine.capability != 90 || view.dtype == Dtype::float32 || view.rows == 0) return false;
  const double most_tiles =
      static_cast<double>(view.groups_i) * view.groups_j * (view.b / 64 + 1) * (view.rows / 64 + 1);
  if (most_tiles > INT32_MAX / 2) return false;
  const auto describable = [&](const void* data, const TensorBox& box) { return can_describe(data, view.dtype, box); };
  return describable(view.x, gemm_rows_by_features(view, view.x_strides, view.c)) &&
         describable(view.y, gemm_rows_by_features(view, view.y_strides, view.b)) &&
         describable(view.weight, gemm_weight(view, tile.columns)) &&
         with_gemm_tile(tile, [&](auto chosen) { return fits(view, chosen, machine); });
}

double gemm_seconds(const GemmView& view, GemmTile tile, const Machine& machine) {
  const Cut cut = with_gemm_tile(tile, [&](auto chosen) { return cut_of(chosen, machine); });
  const double planes = static_cast<double>(view.groups_i) * view.groups_j;
  const double columns = rounded_up(view.b, tile.columns), rows = rounded_up(view.rows, cut.rows);
  const double all = planes * (columns / tile.columns) * (rows / cut.rows);
  const double waves = rounded_up(all, cut.parts) / all;
  // measured on an H200: writes take 1.3 times as long as reads, and the matrix units reach 0.83 of a plain product
  const bool resident = tile.hold == GemmHold::resident;
  const double reads = 2 * planes * view.c * (view.rows + static_cast<double>(view.b));
  const double writes = 2 * planes * view.rows * view.b;
  const double passes = columns / tile.columns;
  const double slower = slowness(view, tile) * (0.99 + 0.01 * passes);
  const double memory = slower * (reads / 1.03 + writes / 0.8) / machine.memory_rate;
  const double operations = 2 * planes * rows * columns * rounded_up(view.c, gemm_step);
  const bool staggered = tile.hold == GemmHold::streamed && steps(view) >= steps_for_turns;
  const double reached = tile.hold == GemmHold::wide && tile.columns == 192 ? 0.9
                         : staggered && tile.columns == 256                 ? 0.86
                                                                            : 0.83;
  const double matrix = operations / (reached * machine.matrix_rate) * waves;
  // what comes out of the L2 cache: X for each tile of columns, W (streamed) for each pair of blocks, and Y into it
  const double x_reads = view.c * rows * passes;
  const double weight_reads = resident ? 0 : view.c * columns * rows / cut.rows;
  const double cached = 2 * planes * (x_reads + weight_reads + rows * view.b);
  const double least = 2.1e-6 + 0.1e-6 * static_cast<double>(steps(view));
  const double starts = resident ? 1.4e-6 : 0;  // with all of W, which a block that streams does not wait for
  // warpgroups that take tiles in turn end at different times
  const double ends = tile.hold == GemmHold::wide ? 1 + 0.3 * (waves - 1) : waves;
  return least + std::max({starts, memory * std::min(ends, 1.5), matrix, cached / (1.4 * machine.cache_rate)}) +
         0.05 * (memory + matrix * (0.99 + 0.01 * passes));
}

cudaError_t launch_gemm(const GemmView& view, GemmTile tile, const Machine& machine, cudaStream_t stream) {
  return view.dtype == Dtype::float16 ? launch_gemm_float16(view, tile, machine, stream)
                                      : launch_gemm_bfloat16(view, tile, machine, stream);
}

bool choose_gemm_tile(const GemmView& view, const Machine& machine, GemmTile* tile) {
  double least = 0;
  bool found = false;
  for (const GemmTile candidate : tiles) {
    if (!gemm_takes(view, candidate, machine)) continue;
    const double seconds = gemm_seconds(view, candidate, machine);
    if (!found || seconds < least) least = seconds, *tile = candidate;
    found = true;
  }
  return found;
}

template <GemmHold HOLD, int COLUMNS>
Configuration gemm_configuration(const char* name) {
  Configuration configuration;
  configuration.name = name;
  configuration.arranged_weight = true;
  configuration.takes = [](const Problem& problem, const Operands& operands, const Machine& machine) {
    GemmView view;
    return view_problem(problem, operands, &view) && gemm_takes(view, {HOLD, COLUMNS}, machine);
  };
  configuration.seconds = [](const Problem& problem, const Machine& machine) {
    GemmView view;
    view_problem(problem, Operands{}, &view);
    return gemm_seconds(view, {HOLD, COLUMNS}, machine);
  };
  configuration.launch = [](const Problem& problem, const Operands& operands, const Machine& machine, const Workspace&,
                            cudaStream_t stream) {
    GemmView view;
    view_problem(problem, operands, &view);
    return launch_gemm(view, {HOLD, COLUMNS}, machine, stream);
  };
  return configuration;
}

}  // namespace ksmm::hopper
#endif

namespace ksmm {

Configurations gemm_configurations() {
#if defined(KSMM_SM90A)
  using hopper::gemm_configuration;
  using hopper::GemmHold;
  static const Configuration configurations[] = {
      gemm_configuration<GemmHold::resident, 32>("gemm resident 32"),
      gemm_configuration<GemmHold::resident, 48>("gemm resident 48"),
      gemm_configuration<GemmHold::resident, 64>("gemm resident 64"),
      gemm_configuration<GemmHold::resident, 96>("gemm resident 96"),
      gemm_configuration<GemmHold::resident, 128>("gemm resident 128"),
      gemm_configuration<GemmHold::resident, 192>("gemm resident 192"),
      gemm_configuration<GemmHold::resident, 256>("gemm resident 256"),
      gemm_configuration<GemmHold::streamed, 64>("gemm streamed 64"),
      gemm_configuration<GemmHold::streamed, 96>("gemm streamed 96"),
      gemm_configuration<GemmHold::streamed, 128>("gemm streamed 128"),
      gemm_configuration<GemmHold::streamed, 192>("gemm streamed 192"),
      gemm_configuration<GemmHold::streamed, 256>("gemm streamed 256"),
      gemm_configuration<GemmHold::alternating, 128>("gemm alternating 128"),
      gemm_configuration<GemmHold::wide, 64>("gemm wide 64"),
      gemm_configuration<GemmHold::wide, 96>("gemm wide 96"),
      gemm_configuration<GemmHold::wide, 128>("gemm wide 128"),
      gemm_configuration<GemmHold::wide, 192>("gemm wide 192"),
  };
  return {configurations, static_cast<int>(sizeof configurations / sizeof *configurations)};
#else
  return {nullptr, 0};
#endif
}

}  // namespace ksmm
