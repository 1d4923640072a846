// Launching the gemm kernels of one number format. Host code.
#pragma once

#include <algorithm>

#include "gemm_alternating.cuh"
#include "gemm_describe.cuh"
#include "gemm_resident.cuh"
#include "gemm_single.cuh"
#include "gemm_spread.cuh"
#include "gemm_streamed.cuh"
#include "overlap.cuh"

namespace ksmm::hopper {

// As many stages as there is room for: four of 256 columns leave room for a quarter of Y in the outlets, and three with
// more for Y measured slower.
template <int COLUMNS>
using StreamedOf = StreamedTile<COLUMNS, COLUMNS <= 64    ? 7
                                         : COLUMNS <= 128 ? 6
                                                          : 4>;

// Whether wide tiles of 192 columns are faster with one stage more, and less of Y on its way: where the sums are long,
// and more is read than written (docs/gemm.md, "A stage more, by lower boxes").
inline bool wants_stages(const GemmView& view) { return view.b <= view.c && view.c > 6 * gemm_step; }

// Calls run(tile) with the type that the tile has for the view; run returns the same for each.
template <class Run>
auto with_gemm_tile(GemmTile tile, const GemmView& view, Run run) {
  if (tile.hold == GemmHold::streamed) {
    switch (tile.columns) {
      case 64: return run(StreamedOf<64>());
      case 96: return run(StreamedOf<96>());
      case 128: return run(StreamedOf<128>());
      default: return run(StreamedOf<256>());
    }
  }
  if (tile.hold == GemmHold::alternating) {
    switch (tile.columns) {
      case 128: return run(AlternatingTile<128, 5, false>());
      default: return run(AlternatingTile<192, 4, false>());
    }
  }
  if (tile.hold == GemmHold::wide) {
    switch (tile.columns) {
      case 64: return run(AlternatingTile<64, 6, true>());
      case 96: return run(AlternatingTile<96, 6, true>());
      case 128: return run(AlternatingTile<128, 5, true>());
      default: return wants_stages(view) ? run(AlternatingTile<192, 5, true>()) : run(AlternatingTile<192, 4, true>());
    }
  }
  if (tile.hold == GemmHold::resident) {
    switch (tile.columns) {
      case 128: return run(ResidentTile<128>());
      default: return run(ResidentTile<192>());
    }
  }
  switch (tile.columns) {
    case 48: return run(SingleTile<48, 2>());
    case 64: return tile.blocks == 1 ? run(SingleTile<64, 1>()) : run(SingleTile<64, 2>());
    case 96: return tile.blocks == 1 ? run(SingleTile<96, 1>()) : run(SingleTile<96, 2>());
    case 128: return run(SingleTile<128, 1>());
    default: return run(SingleTile<192, 1>());
  }
}

template <class T, class Tile>
cudaError_t launch_spread(const GemmView& view, cudaStream_t stream) {
  SpreadTask task;
  const cudaError_t error = describe_spread(&task, view);
  if (error != cudaSuccess) return error;
  count_tiles<Tile, Tile::rows>(&task, view);
  task.x_bytes = static_cast<int>(Tile::x_bytes(task.k_steps));
  return with_spread(view.spread, cudaErrorInvalidValue, [&](auto d) {
    return launch_overlapping(spread_kernel<T, Tile, decltype(d)::value>, task.tiles, Tile::threads,
                              Tile::shared_bytes(task.k_steps), 1, stream, task);
  });
}

template <class T, bool ROWS_CONTIGUOUS, int COLUMNS, int BLOCKS>
cudaError_t launch_tile(const GemmView& view, SingleTile<COLUMNS, BLOCKS> tile, const Machine& machine,
                        cudaStream_t stream) {
  using Tile = decltype(tile);
  if constexpr (!ROWS_CONTIGUOUS && Tile::spreads)
    if (view.spread > 1) return launch_spread<T, Tile>(view, stream);
  GemmTask task;
  const cudaError_t error = describe_gemm(&task, view, Tile::columns);
  if (error != cudaSuccess) return error;
  count_tiles<Tile, Tile::rows>(&task, view);
  task.x_bytes = static_cast<int>(Tile::x_bytes(task.k_steps));
  task.ahead = blocks_ahead(view, machine);
  return launch_overlapping(single_kernel<T, Tile, ROWS_CONTIGUOUS>, task.tiles, Tile::threads,
                            Tile::shared_bytes(task.k_steps), 1, stream, task);
}

template <class T, bool ROWS_CONTIGUOUS, int COLUMNS, int STAGES>
cudaError_t launch_tile(const GemmView& view, StreamedTile<COLUMNS, STAGES> tile, const Machine& machine,
                        cudaStream_t stream) {
  using Tile = decltype(tile);
  GemmTask task;
  const cudaError_t error = describe_gemm(&task, view, Tile::columns / Tile::cluster);
  if (error != cudaSuccess) return error;
  count_tiles<Tile, rows_of_pair>(&task, view);
  const int clusters = std::min(task.tiles, machine.pairs);
  if constexpr (Tile::in_teams)
    form_teams<Tile>(&task, clusters);
  else
    task.planes = planes_side_by_side(view);
  task.ahead = blocks_ahead(view, machine);
  return launch_overlapping(streamed_kernel<T, Tile, ROWS_CONTIGUOUS>, Tile::cluster * clusters, Tile::threads,
                            Tile::shared_bytes, Tile::cluster, stream, task);
}

template <class T, bool ROWS_CONTIGUOUS, int COLUMNS, int STAGES, bool WIDE>
cudaError_t launch_tile(const GemmView& view, AlternatingTile<COLUMNS, STAGES, WIDE> tile, const Machine& machine,
                        cudaStream_t stream) {
  using Tile = decltype(tile);
  if constexpr (WIDE && !ROWS_CONTIGUOUS) {
    return cudaErrorInvalidValue;
  } else {
    typename Tile::Task task;
    cudaError_t error;
    if constexpr (WIDE)
      error = describe_wide<Tile>(&task, view);
    else
      error = describe_gemm(&task, view, Tile::columns / Tile::cluster, Tile::paired ? gemm_part : 64);
    if (error != cudaSuccess) return error;
    count_tiles<Tile, rows_of_pair>(&task, view);
    task.planes = planes_side_by_side(view);
    task.ahead = blocks_ahead(view, machine);
    return launch_overlapping(alternating_kernel<T, Tile, ROWS_CONTIGUOUS>,
                              Tile::cluster * std::min(task.tiles, machine.pairs), Tile::threads, Tile::shared_bytes,
                              Tile::cluster, stream, task);
  }
}

template <class T, bool ROWS_CONTIGUOUS, int COLUMNS>
cudaError_t launch_tile(const GemmView& view, ResidentTile<COLUMNS> tile, const Machine& machine, cudaStream_t stream) {
  using Tile = decltype(tile);
  if constexpr (ROWS_CONTIGUOUS) {
    return cudaErrorInvalidValue;
  } else {
    ResidentTask task;
    const cudaError_t error = describe_resident(&task, view);
    if (error != cudaSuccess) return error;
    count_tiles<Tile, gemm_rows>(&task, view);
    const int blocks = ResidentShares<Tile>(view, machine).blocks;
    task.stages = stages_of_resident<Tile>(view, machine);
    return with_spread(view.spread, cudaErrorInvalidValue, [&](auto d) {
      return launch_overlapping(resident_kernel<T, Tile, decltype(d)::value>, blocks, Tile::threads,
                                Tile::shared_bytes(task.k_steps, task.stages), 1, stream, task);
    });
  }
}

template <class T>
cudaError_t launch_gemm_of(const GemmView& view, GemmTile tile, const Machine& machine, cudaStream_t stream) {
  return with_gemm_tile(tile, view, [&](auto chosen) {
    return view.rows_contiguous ? launch_tile<T, true>(view, chosen, machine, stream)
                                : launch_tile<T, false>(view, chosen, machine, stream);
  });
}

cudaError_t launch_gemm_float16(const GemmView& view, GemmTile tile, const Machine& machine, cudaStream_t stream);
cudaError_t launch_gemm_bfloat16(const GemmView& view, GemmTile tile, const Machine& machine, cudaStream_t stream);

}  // namespace ksmm::hopper
