// Which problems the exchange kernels take, and how long they are expected to need.
#if defined(KSMM_SM90A)
#include <algorithm>
#include <cmath>

#include "exchange_launch.cuh"

namespace ksmm::hopper {
namespace {

// Seconds that a block takes for a tile: what it reads, and what it passes on and writes, which hides behind the next
// one's reads. `rate`: bytes per second from the L2 cache to a multiprocessor. The factors are what an H200 showed.
double hidden(double reads, double writes) { return std::cbrt(reads * reads * reads + writes * writes * writes); }

template <int COLUMNS, int PLANES>
double tile_seconds(ExchangeTile<COLUMNS, PLANES> tile, double k_steps, double rate) {
  using Tile = decltype(tile);
  const double reads = PLANES * k_steps * (Tile::x_bytes + Tile::weight_bytes) / (1.08 * rate);
  return (PLANES == 3 ? 0.9 : 1.0) * (0.5e-6 + hidden(reads, Tile::tile_bytes / (0.31 * rate)));
}
template <int COLUMNS, int RAWS, int OPERANDS, int WEIGHTS>
double tile_seconds(RegroupTile<COLUMNS, RAWS, OPERANDS, WEIGHTS> tile, double k_steps, double rate) {
  using Tile = decltype(tile);
  const double reads = k_steps * (Tile::raw_bytes + Tile::weight_bytes) / (0.69 * rate);
  return hidden(reads, 1.2e-6 + Tile::tile_bytes / (0.36 * rate));
}

}  // namespace

bool exchange_takes(const GemmView& view, ExchangeShape shape, const Machine& machine) {
  if (machine.capability != 90 || machine.octets == 0 || view.dtype == Dtype::float32 || view.rows == 0) return false;
  if (view.groups_j % shape.group != 0 || reinterpret_cast<uintptr_t>(view.y) % 16 != 0) return false;
  if (shape.group % 16 != 0 && view.groups_j % 16 == 0) return false;  // sectors of Y would be filled in halves
  const double most_tiles =
      static_cast<double>(view.groups_i) * view.groups_j * (view.b / 64 + 1) * (view.rows / 64 + 1);
  if (most_tiles > INT32_MAX / 2) return false;
  return can_describe(view.x, view.dtype, exchange_x(view, shape.source)) &&
         can_describe(view.weight, view.dtype, gemm_weight(view, shape.columns)) &&
         with_exchange_tile(shape, [&](auto tile) { return decltype(tile)::shared_bytes <= machine.shared_limit; });
}

double exchange_seconds(const GemmView& view, ExchangeShape shape, const Machine& machine) {
  const auto parts = [](int64_t size, int part) { return static_cast<double>(parts_of(size, part)); };
  return with_exchange_tile(shape, [&](auto tile) {
    using Tile = decltype(tile);
    const double clusters = machine.octets;
    const double tiles = parts(view.b, Tile::columns) * parts(view.rows, Tile::rows) *
                         static_cast<double>(view.groups_i * view.groups_j / Tile::group);
    const double of_tile =
        tile_seconds(tile, parts(view.c, gemm_step), machine.cache_rate / (clusters * exchange_cluster));
    const double features = static_cast<double>(view.groups_i * view.groups_j * (view.b + view.c));
    const double memory = 2 * features * static_cast<double>(view.rows) / (0.7 * machine.memory_rate);
    const double more = weight_is_cached(view) ? 1.0 : 1.2;
    return 5e-6 + std::max(more * std::ceil(tiles / clusters) * of_tile, memory);
  });
}

cudaError_t launch_exchange(const GemmView& view, ExchangeShape shape, const Machine& machine, cudaStream_t stream) {
  return view.dtype == Dtype::float16 ? launch_exchange_float16(view, shape, machine, stream)
                                      : launch_exchange_bfloat16(view, shape, machine, stream);
}

}  // namespace ksmm::hopper
#endif
