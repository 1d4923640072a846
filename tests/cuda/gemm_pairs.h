// Which tiles pairs of blocks have that stay, and that they multiply by the W of each: emulate_gemm.cu follows them.
#pragma once

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "../../ksmm/csrc/cuda/hopper/gemm_launch.cuh"

namespace ksmm::hopper {

// Whether a cluster multiplies by another W than its tile's, where it keeps what its ring has, or not by all of it, or
// loads of W what the ring has. Counts how often the cluster's next tile with the same i and j has another r.
template <class Tile>
bool is_wrong_weight(const GemmTask& task, const PairShare<Tile>& share, int* changes) {
  std::array<std::array<int, 4>, Tile::stages> ring = {};
  const int filling = std::max(1, Tile::stages / task.k_steps);  // tiles
  std::array<int, 3> last{-1, -1, -1};
  int slot = 0, since = 0;
  PairSteps<Tile> steps(task);
  for (int tile = share.first; tile < share.end; tile += share.stride) {
    const PairPlace<Tile> place(task, tile, 0);
    steps.begin(task, place);
    const std::array<int, 3> now{place.r, place.i, place.j};
    since = now == last ? since + 1 : 0;
    *changes += now[0] != last[0] && now[1] == last[1] && now[2] == last[2], last = now;
    int loads = 0;
    std::vector<int> taken(static_cast<size_t>(task.k_steps));
    for (int step = 0; step < task.k_steps; ++step, slot = (slot + 1) % Tile::stages) {
      const std::array<int, 4> wanted{place.r, place.i, place.j, 1 + steps.k(step)};
      if (!steps.keeps_weight(step)) ring.at(slot) = wanted, ++loads;
      if (ring.at(slot) != wanted) return true;
      ++taken.at(static_cast<size_t>(steps.k(step) / gemm_step));
    }
    if (taken != std::vector<int>(static_cast<size_t>(task.k_steps), 1)) return true;
    const int least = task.k_steps > Tile::stages ? task.k_steps - Tile::stages : Tile::stages % task.k_steps;
    if (loads != (Tile::in_teams && since >= filling ? least : task.k_steps)) return true;
  }
  return false;
}

// Whether clusters in teams change their r where those of b are as many: none does if they can be shared evenly, and
// else few of those who have the first tiles of a round, or come before them.
inline bool changes_r(const GemmTask& task, int clusters, int changes) {
  const int columns = task.column_tiles, rounds = static_cast<int>(parts_of(task.tiles, clusters));
  return changes > (clusters % columns == 0 ? 0 : 2 * (columns - 1) * rounds);
}

// Whether the planes of a group are not neighbours with the same n and r as the first of them.
template <class Tile>
bool is_apart(const GemmTask& task, int tile, const PairPlace<Tile>& place) {
  if (Tile::in_teams) return false;
  const PairPlace<Tile> first(task, tile - tile % task.planes, 0);
  return place.r != first.r || place.n != first.n || place.i != first.i || place.j != first.j + tile % task.planes;
}

// Whether tiles of pairs of blocks are left out or taken twice, or some pair has more tiles than it must, or the last r
// of b, where it is fewer, more often than others where there are few tiles of r, on as many pairs as there are on
// Hopper's kinds; or another W.
template <class Tile>
bool is_wrong_order(std::mt19937& random) {
  const auto any = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  const bool is_wide = any(8) == 1;  // more tiles of r than pairs
  const int pairs = std::array<int, 3>{39, 57, 66}.at(any(3) - 1), planes = any(is_wide ? 3 : 60);
  GemmTask task;
  task.groups_j = any(any(2) == 1 ? 4 : 12), task.row_tiles = any(is_wide ? 5 : 100);
  task.column_tiles = is_wide ? 50 + any(300) : std::array{1, any(3), any(16)}.at(any(3) - 1);
  task.b = task.column_tiles * Tile::columns - (any(3) == 1 ? 8 : 0);
  task.tiles = planes * task.groups_j * task.row_tiles * task.column_tiles;
  task.k_steps = any(any(2) == 1 ? Tile::stages : 4 * Tile::stages);
  const int clusters = std::min(pairs, task.tiles);
  GemmView view = {};
  view.rows_contiguous = any(4) > 1, view.groups_j = task.groups_j, view.c = task.k_steps * gemm_step;
  if constexpr (Tile::in_teams)
    form_teams<Tile>(&task, clusters);
  else
    task.planes = planes_side_by_side(view);
  const bool even = task.b % Tile::columns == 0 && task.column_tiles <= clusters;
  int changes = 0;
  std::vector<int> taken(static_cast<size_t>(task.tiles));
  for (int pair = 0; pair < clusters; ++pair) {
    int last = 0, all = 0;
    const PairShare<Tile> share(task, pair, clusters);
    if (is_wrong_weight(task, share, &changes)) return true;
    for (int tile = share.first; tile < share.end; tile += share.stride, ++all) {
      const PairPlace<Tile> place(task, tile, 0);
      const int column_tile = place.r / Tile::columns, row_tile = place.n / rows_of_pair;
      if (place.r % Tile::columns != 0 || column_tile >= task.column_tiles || row_tile >= task.row_tiles ||
          place.i >= planes || place.j >= task.groups_j || is_apart(task, tile, place))
        return true;
      const int plane = place.i * task.groups_j + place.j;
      ++taken.at(static_cast<size_t>((plane * task.row_tiles + row_tile) * task.column_tiles + column_tile));
      last += column_tile == task.column_tiles - 1;
    }
    if (all == 0 || all > parts_of(task.tiles, clusters)) return true;
    if (!(Tile::in_teams && even) && task.column_tiles <= 4 && last > all / task.column_tiles + 2) return true;
  }
  if (Tile::in_teams && even && changes_r(task, clusters, changes)) return true;
  return std::any_of(taken.begin(), taken.end(), [](int times) { return times != 1; });
}

}  // namespace ksmm::hopper
