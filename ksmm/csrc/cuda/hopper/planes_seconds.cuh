// How long a tile of the planes kernel may need for a problem: the cost model. Host code.
#pragma once

#include <algorithm>
#include <cmath>

#include "planes_launch.cuh"
#include "planes_slowness.cuh"

namespace ksmm::hopper {

// What writing W by stages takes: a launch, and what is not hidden behind the kernel before.
template <class Tile>
double planes_stages_seconds(const Problem& problem, const Machine& machine) {
  return 6e-6 + 2 * planes_stages<Tile>(problem).bytes(problem) / machine.memory_rate;
}

// What the tiles of a problem keep busy, each in seconds as if it were alone.
struct PlanesLimits {
  double memory, cache, engine, matrix;
};

// Memory, the L2 cache (every block fetches its X and W from there), the copy engine (which takes about three cycles
// for a row, however short, or 2.4 in steps of 16 k of which both warpgroups take all planes) and the matrix units.
template <class Tile, bool PREPARED>
PlanesLimits planes_limits(const Problem& problem, const Machine& machine) {
  const double tiles = 1.0 * Tile::cluster * PlanesTiles<Tile>(problem).all;
  const double columns = parts_of(problem.c, 16) * 16.0;
  const double y_bytes = 2.0 * Tile::n * Tile::r * Tile::j;
  constexpr double own_n = 1.0 * Tile::n / Tile::along_r, own_r = 1.0 * Tile::r / Tile::along_n;
  const double fetched = tiles * (columns * 2.0 * Tile::j * (own_n + own_r) + y_bytes);
  constexpr double weight_rows = !PREPARED ? 1 : Tile::wide ? 0.7 : Tile::weight_row_bytes / 256.0;  // of the engine
  // of what a block need not fetch it sees 0.6 in the engine's time
  const double rows = (0.4 * Tile::n + 0.6 * own_n) * columns * 2.0 * Tile::j / Tile::row_bytes +
                      (0.4 * Tile::r + 0.6 * own_r) * Tile::j * parts_of(problem.c, Tile::k) * weight_rows;
  const double cycles = machine.cache_rate / 21;  // of all multiprocessors in a second, as in machine.cu
  const double elements = static_cast<double>(problem.batch) * problem.a * problem.d * (problem.b + problem.c) +
                          static_cast<double>(problem.a) * problem.b * problem.c * problem.d;
  return {2.0 * elements / (machine.memory_rate * (Tile::wide ? 0.7 : 0.9)),
          fetched / (planes_cache_share<Tile, PREPARED>() * machine.cache_rate),
          tiles * rows / ((Tile::k == 16 && !Tile::split ? 0.42 : 0.35) * cycles),
          tiles * 2.0 * Tile::n * Tile::r * Tile::j * columns / (0.75 * machine.matrix_rate)};
}

// How many times longer a problem takes than its limits, as measured on an H200.
template <class Tile, bool PREPARED>
double planes_slowness(const Problem& problem, const Machine& machine, double rounds) {
  const double clusters = static_cast<double>(PlanesTiles<Tile>(problem).all);
  // a buffered tile leaves while the next one comes, and costs less where it is the last
  const double idle = (Tile::buffered && Tile::j == 2 && problem.c <= 256 ? 1.0 : std::ceil(rounds) / rounds) *
                      machine.multiprocessors / (1.0 * Tile::cluster * clusters_of<Tile>(machine));
  // boxes of neighbouring blocks come at twice the rate; of rows that are far apart, some of them at half of that
  const double row_bytes = 1.0 * problem.a * problem.d * (problem.b + problem.c);  // of X and Y, on average
  constexpr double near_bytes = Tile::cluster == 4 ? 8e3 : 24e3, half_rate = Tile::cluster == 4 ? 24e3 : 110e3;
  const double far = Tile::wide ? 1 + std::max(0.0, (row_bytes - near_bytes) / half_rate) : 1;
  // two planes of half a step more: 1.25 times as long for 1,192,48,2 and 4,48,48,2
  const double cut = Tile::j == 2 && problem.c % Tile::k != 0 ? 1.25 : 1;
  // rows of j that are no whole sectors are written in halves of them: 1.8 times as long for 1,96,96,24 on an H100
  const double halves = Tile::wide && problem.d % 16 != 0 ? 1.7 : 1;
  return far * idle * cut * halves * slowness_of_planes<Tile, PREPARED>(problem);
}

// All tiles, for as many rounds of them as there are: by the slowest of the limits, or, of tiles whose time was
// measured, by that.
template <class Tile, bool PREPARED>
double planes_work_seconds(const Problem& problem, const Machine& machine) {
  const double rounds = std::max(1.0, PlanesTiles<Tile>(problem).all / (1.0 * clusters_of<Tile>(machine)));
  const double whole_rounds = std::ceil(rounds), slower = 132 * 41.6e9 / machine.cache_rate;  // than an H200
  if constexpr (Tile::j == 3 || Tile::j == 6) {
    const double columns = parts_of(problem.c, 16) * 16.0;
    return rounds > 1 ? whole_rounds * seconds_of_uneven_tile<Tile, PREPARED>(columns) * slower : 0;
  } else if constexpr (Tile::has_beside || Tile::along_r == 4) {  // quads of sectors are as other tiles
    double rounds_of_fours = whole_rounds;
    if constexpr (Tile::has_beside) rounds_of_fours = rows_beside<Tile>(problem, machine).rounds;
    return rounds > 1 ? rounds_of_fours * seconds_of_four_blocks<Tile, PREPARED>(problem) * slower : 0;
  } else {
    const PlanesLimits limits = planes_limits<Tile, PREPARED>(problem, machine);
    const double meets = Tile::cluster == 1 ? 1 : Tile::k == 32 ? 1.1 : Tile::wide ? 1 : 0.9;  // by 60 times
    const double longest = std::max(limits.memory, meets * std::max({limits.cache, limits.engine, limits.matrix}));
    const double sum = meets * (limits.cache + limits.engine + limits.matrix);
    return planes_slowness<Tile, PREPARED>(problem, machine, rounds) * (0.85 * longest + 0.05 * sum);
  }
}

// The first tile, which nothing hides, then the work; and W by stages.
template <class Tile, bool PREPARED>
double planes_seconds(const Problem& problem, const Machine& machine) {
  const double tile = seconds_of_one_tile<Tile, PREPARED>(parts_of(problem.c, 16) * 16.0, problem.d);
  const double preparation = PREPARED ? planes_stages_seconds<Tile>(problem, machine) : 0;
  return preparation + std::max(tile, std::min(4e-6, tile) + planes_work_seconds<Tile, PREPARED>(problem, machine));
}

}  // namespace ksmm::hopper
