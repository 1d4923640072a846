// The tiles of the SIMT kernel that are compiled in, and which of them a problem gets.
#pragma once

#include "simt_tile.cuh"
#include "task.cuh"

namespace ksmm {

template <Layout LAYOUT, class T_TILE>
struct Choice {
  static constexpr Layout layout = LAYOUT;
  using Tile = T_TILE;
};

// Rows of a padded tile are multiplied for nothing, so b decides: the larger tile unless the smaller one wastes less.
inline bool wastes_less(int64_t size, int64_t smaller, int64_t larger) {
  return (size + smaller - 1) / smaller * smaller < (size + larger - 1) / larger * larger;
}

// Returns run(Choice<...>()) for the tile that suits the problem.
template <class T, class Run>
auto with_simt_tile(const Problem& problem, Run run) {
  constexpr Layout first = Layout::batch_first, last = Layout::batch_last;
  using OneJ = SimtTile<128, 64, 1, 8, 8, 8, 4>;
  using FourJ = SimtTile<64, 32, 4, 8, 4, 4, 3>;
  using EightJ = SimtTile<32, 32, 8, 4, 4, 4, 3>;

  if (problem.layout == last) return run(Choice<last, OneJ>());
  if (problem.d == 1) return run(Choice<first, OneJ>());
  if (problem.d == 2) return run(Choice<first, SimtTile<64, 64, 2, 8, 8, 4, 3>>());
  // In groups of eight, four j or more of the last group would be multiplied for nothing.
  if (problem.d % 8 >= 1 && problem.d % 8 <= 4) return run(Choice<first, FourJ>());
  return run(Choice<first, EightJ>());
}

}  // namespace ksmm
