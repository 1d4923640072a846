// Which tiles pairs of blocks have that stay, and that they multiply by the W of each: emulate_gemm.cu follows them.
#pragma once

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "../../ksmm/csrc/cuda/hopper/gemm_launch.cuh"

namespace ksmm::hopper {

// Whether a cluster multiplies by another W than its tile's, where it keeps what its ring has, or loads one more often
// than it fills the ring.
template <class Tile>
bool is_wrong_weight(const GemmTask& task, const PairShare<Tile>& share) {
  std::array<std::array<int, 4>, Tile::stages> ring = {};
  int slot = 0, loads = 0, planes = 0, last_plane = -1;
  for (int tile = share.first; tile < share.end; tile += share.stride) {
    const PairPlace<Tile> place(task, tile, 0);
    const bool keeps = share.keeps_weight(task, tile);
    const int plane = tile / task.column_tiles / task.row_tiles;
    planes += plane != last_plane, last_plane = plane, loads += !keeps;
    for (int step = 0; step < task.k_steps; ++step, slot = (slot + 1) % Tile::stages) {
      const std::array<int, 4> wanted{place.r, place.i, place.j, 1 + k_of_step(task, place, step)};
      if (!keeps) ring.at(slot) = wanted;
      if (ring.at(slot) != wanted) return true;
    }
  }
  return task.ring_tiles > 0 && loads > task.ring_tiles * planes;
}

// Whether tiles of pairs of blocks are left out or taken twice, or some pair has more tiles than it must, or the last r
// of b, which may be fewer, more often than others where there are few tiles of r, on as many pairs as there are on
// Hopper's kinds; or another W.
template <class Tile>
bool is_wrong_order(std::mt19937& random) {
  const auto any = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  const int pairs = std::array<int, 3>{39, 57, 66}.at(any(3) - 1), planes = any(60);
  GemmTask task;
  task.groups_j = any(4), task.row_tiles = any(100), task.column_tiles = any(2) == 1 ? 1 : any(16);
  task.tiles = planes * task.groups_j * task.row_tiles * task.column_tiles;
  task.k_steps = any(2 * Tile::stages), task.ring_tiles = 0;
  const int clusters = std::min(pairs, task.tiles);
  if constexpr (Tile::in_teams) form_teams<Tile>(&task, any(3) > 1, clusters);
  std::vector<int> taken(static_cast<size_t>(task.tiles));
  for (int pair = 0; pair < clusters; ++pair) {
    int last = 0, all = 0;
    const PairShare<Tile> share(task, pair, clusters);
    if (is_wrong_weight(task, share)) return true;
    for (int tile = share.first; tile < share.end; tile += share.stride, ++all) {
      const PairPlace<Tile> place(task, tile, 0);
      const int column_tile = place.r / Tile::columns, row_tile = place.n / rows_of_pair;
      if (place.r % Tile::columns != 0 || column_tile >= task.column_tiles || row_tile >= task.row_tiles ||
          place.i >= planes || place.j >= task.groups_j)
        return true;
      const int plane = place.i * task.groups_j + place.j;
      ++taken.at(static_cast<size_t>((plane * task.row_tiles + row_tile) * task.column_tiles + column_tile));
      last += column_tile == task.column_tiles - 1;
    }
    if (all == 0 || all > parts_of(task.tiles, clusters)) return true;
    if (task.column_tiles <= 4 && last > all / task.column_tiles + 2) return true;
  }
  return std::any_of(taken.begin(), taken.end(), [](int times) { return times != 1; });
}

}  // namespace ksmm::hopper
