// The family of tiles of the gemm kernels: which problems they take, and how long they are expected to need.
#include <algorithm>

#include "gemm.h"

#if defined(KSMM_SM90A)
#include "gemm_seconds.cuh"

namespace ksmm::hopper {
namespace {

constexpr GemmTile tiles[] = {
    {GemmHold::single, 48, 2},    {GemmHold::single, 64, 1},  {GemmHold::single, 64, 2},  {GemmHold::single, 96, 1},
    {GemmHold::single, 96, 2},    {GemmHold::single, 128, 1}, {GemmHold::single, 192, 1}, {GemmHold::streamed, 64},
    {GemmHold::streamed, 96},     {GemmHold::streamed, 128},  {GemmHold::streamed, 256},  {GemmHold::alternating, 128},
    {GemmHold::alternating, 192}, {GemmHold::wide, 64},       {GemmHold::wide, 96},       {GemmHold::wide, 128},
    {GemmHold::wide, 192},        {GemmHold::resident, 128},  {GemmHold::resident, 192}};

// Y is written 64 columns at a time, which must not reach into the next tile.
bool writes_fit(const GemmView& view, int columns) { return view.b <= columns || columns % 64 == 0; }

bool spread_takes(const GemmView& view) {
  const bool whole = view.c / view.spread % spread_vector == 0 && view.b <= most_spread;
  return whole && with_spread(view.spread, false, [](auto) { return true; });
}

// Also beside transpositions (overlapped_passes.cu), where its blocks go wherever there is room: without it products
// that are short enough for it took 1.03 and 1.07 times as long.
template <int COLUMNS, int BLOCKS>
bool fits(const GemmView& view, SingleTile<COLUMNS, BLOCKS> tile, const Machine& machine) {
  return (view.spread == 1 || (decltype(tile)::spreads && spread_takes(view))) && writes_fit(view, COLUMNS) &&
         gemm_steps(view) <= decltype(tile)::most_steps &&
         decltype(tile)::shared_bytes(gemm_steps(view)) <= machine.shared_limit;
}
template <int COLUMNS, int STAGES>
bool fits(const GemmView& view, StreamedTile<COLUMNS, STAGES> tile, const Machine& machine) {
  return view.spread == 1 && writes_fit(view, COLUMNS) && decltype(tile)::shared_bytes <= machine.shared_limit;
}
template <int COLUMNS, int STAGES, bool WIDE>
bool fits(const GemmView& view, AlternatingTile<COLUMNS, STAGES, WIDE> tile, const Machine& machine) {
  return view.spread == 1 && (!WIDE || view.rows_contiguous) && decltype(tile)::shared_bytes <= machine.shared_limit;
}
template <int COLUMNS>
bool fits(const GemmView& view, ResidentTile<COLUMNS> tile, const Machine& machine) {
  using Tile = decltype(tile);
  return view.spread > 1 && !view.rows_contiguous && spread_takes(view) &&
         stages_of_resident<Tile>(view, machine) >= Tile::least_stages;
}

// Which of the three kinds of blocks a tile is for.
template <int COLUMNS, int BLOCKS>
double seconds_of(const GemmView& view, SingleTile<COLUMNS, BLOCKS> tile, GemmTile, const Machine& machine) {
  return seconds_of_single<decltype(tile)>(view, machine);
}
template <int COLUMNS>
double seconds_of(const GemmView& view, ResidentTile<COLUMNS> tile, GemmTile, const Machine& machine) {
  return seconds_of_resident<decltype(tile)>(view, machine);
}
template <class Tile>
double seconds_of(const GemmView& view, Tile, GemmTile tile, const Machine& machine) {
  return seconds_of_pairs(view, tile, machine);
}

}  // namespace

bool gemm_takes(const GemmView& view, GemmTile tile, const Machine& machine) {
  if (machine.capability != 90 || view.dtype == Dtype::float32 || view.rows == 0) return false;
  const double most_tiles =
      static_cast<double>(view.groups_i) * view.groups_j * (view.b / 64 + 1) * (view.rows / 64 + 1);
  if (most_tiles > INT32_MAX / 2) return false;
  const auto describable = [&](const void* data, const TensorBox& box) { return can_describe(data, view.dtype, box); };
  return describable(view.x, gemm_rows_by_features(view, view.x_strides, view.c)) &&
         describable(view.y, gemm_rows_by_features(view, view.y_strides, view.b)) &&
         (view.spread > 1 || describable(view.weight, gemm_weight(view, tile.columns))) &&
         with_gemm_tile(tile, view, [&](auto chosen) { return fits(view, chosen, machine); });
}

double gemm_seconds(const GemmView& view, GemmTile tile, const Machine& machine) {
  return with_gemm_tile(tile, view, [&](auto chosen) { return seconds_of(view, chosen, tile, machine); });
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

template <GemmHold HOLD, int COLUMNS, int BLOCKS = 2>
Configuration gemm_configuration(const char* name) {
  Configuration configuration;
  configuration.name = name;
  configuration.arranged_weight = true;
  configuration.takes = [](const Problem& problem, const Operands& operands, const Machine& machine) {
    GemmView view;
    view_problem(problem, operands, &view);
    return gemm_takes(view, {HOLD, COLUMNS, BLOCKS}, machine);
  };
  configuration.seconds = [](const Problem& problem, const Machine& machine) {
    GemmView view;
    view_problem(problem, Operands{}, &view);
    return gemm_seconds(view, {HOLD, COLUMNS, BLOCKS}, machine);
  };
  configuration.launch = [](const Problem& problem, const Operands& operands, const Machine& machine, const Workspace&,
                            cudaStream_t stream) {
    GemmView view;
    view_problem(problem, operands, &view);
    return launch_gemm(view, {HOLD, COLUMNS, BLOCKS}, machine, stream);
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
      gemm_configuration<GemmHold::single, 48, 2>("gemm single r48 n128"),
      gemm_configuration<GemmHold::single, 64, 1>("gemm single r64 n64"),
      gemm_configuration<GemmHold::single, 64, 2>("gemm single r64 n128"),
      gemm_configuration<GemmHold::single, 96, 1>("gemm single r96 n64"),
      gemm_configuration<GemmHold::single, 96, 2>("gemm single r96 n128"),
      gemm_configuration<GemmHold::single, 128, 1>("gemm single r128 n64"),
      gemm_configuration<GemmHold::single, 192, 1>("gemm single r192 n64"),
      gemm_configuration<GemmHold::streamed, 64>("gemm streamed 64"),
      gemm_configuration<GemmHold::streamed, 96>("gemm streamed 96"),
      gemm_configuration<GemmHold::streamed, 128>("gemm streamed 128"),
      gemm_configuration<GemmHold::streamed, 256>("gemm streamed 256"),
      gemm_configuration<GemmHold::alternating, 128>("gemm alternating 128"),
      gemm_configuration<GemmHold::alternating, 192>("gemm alternating 192"),
      gemm_configuration<GemmHold::wide, 64>("gemm wide 64"),
      gemm_configuration<GemmHold::wide, 96>("gemm wide 96"),
      gemm_configuration<GemmHold::wide, 128>("gemm wide 128"),
      gemm_configuration<GemmHold::wide, 192>("gemm wide 192"),
      gemm_configuration<GemmHold::resident, 128>("gemm resident 128"),
      gemm_configuration<GemmHold::resident, 192>("gemm resident 192"),
  };
  return {configurations, static_cast<int>(sizeof configurations / sizeof *configurations)};
#else
  return {nullptr, 0};
#endif
}

}  // namespace ksmm
