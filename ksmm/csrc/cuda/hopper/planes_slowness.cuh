// What was measured of tiles of planes beyond the cost model of planes_seconds.cuh. Host code.
#pragma once

#include <algorithm>

#include "../configuration.h"
#include "planes_tile.cuh"

namespace ksmm::hopper {

// Tiles of three and six planes take longer to write, and less for each k, than all others: what an H200 took for eight
// patterns, within 6 %; buffered ones on an H100 for five, 0.85 to 1.06 of it, and 64 rows of six planes for three.
template <class Tile, bool PREPARED>
double seconds_of_uneven_tile(double columns) {
  if (Tile::j == 6)
    return (Tile::k != 16 ? 1.0 : Tile::r == 48 ? 1.3 : PREPARED ? 1.1 : 1.6) * (2.2e-6 + 27e-9 * columns);
  if (Tile::buffered) return Tile::r == 128 ? 2.2e-6 + 24e-9 * columns : 0.85e-6 + 19e-9 * columns;
  return 44e-9 * Tile::r + 17e-9 * columns;
}

// What a product of one tile for each multiprocessor at most takes, without a launch that prepares W. The last line was
// within 5 % of 50 times in the mean, of 1 to 8 and 16 planes; `slower`, and all of sectors, are what an H200 took for
// 30 patterns with 77 and 512 rows. With d that is no multiple of 16 sectors are written in halves.
template <class Tile, bool PREPARED>
double seconds_of_one_tile(double columns, int64_t d) {
  if (Tile::wide) return (d % 16 == 0 ? 1 : 1.5) * (PREPARED ? 4.3e-6 + 49e-9 * columns : 3.5e-6 + 66e-9 * columns);
  const double size = 1.0 * Tile::r * Tile::j, uneven = (Tile::j & (Tile::j - 1)) != 0 ? 0.6e-6 : 0;
  const double slower = Tile::j == 24   ? 1.4
                        : Tile::j == 16 ? (PREPARED ? 1.1 : 1.2)
                        : Tile::j == 12 ? (PREPARED ? 1.0 : 1.1)
                        : Tile::j == 8  ? 1.27
                        : Tile::j == 6  ? (Tile::k == 32 ? 1.15 : 1.3)
                        : Tile::j == 3  ? (Tile::buffered ? 1.0 : 1.15)
                                        : 1.0;
  return slower * (2.5e-6 + uneven + 5.5e-9 * columns + 3.3e-9 * size + 2.2e-11 * columns * size);
}

// What the L2 cache gives beside the rate that it is said to have: measured on an H200, boxes of neighbouring blocks
// come at twice the rate; on H100s less, where W comes by stages.
template <class Tile, bool PREPARED>
constexpr double planes_cache_share() {
  if (Tile::wide) return 1.15;
  if (!PREPARED) return 1.9;
  return !Tile::split ? 1.6 : Tile::cluster > 1 ? 1.2 : 1.5;
}

// Sectors of 48 rows and of pairs against others, on H100s: they cost more where lines of memory hold several sectors
// of a row. Those of b below 96, with d of 64 and more, as an H200 took for six patterns.
template <class Tile, bool PREPARED>
double slowness_of_shared_lines(const Problem& problem) {
  const int64_t b = problem.b, d = problem.d;
  if (Tile::r == 32) return Tile::cluster == 2 && b > 64 && d >= 64 ? 1.25 : 1;
  if (Tile::r != 48) return 1;
  if (d < 48) return PREPARED ? 0.88 : 1;
  if (d < 64) return PREPARED ? 0.95 : 1.02;
  if (b < 96) return 1;
  return b % 96 != 0 ? 1.6 : d == 64 ? 0.95 : 1.15;
}

// How much longer than others sectors take for the same, on H100s: rows beyond b, blocks that share nothing, and quads
// of which several take b.
template <class Tile, bool PREPARED>
double slowness_of_sectors(const Problem& problem) {
  const auto& [a, b, c, d, batch, dtype, layout, precision] = problem;
  const int64_t tiles_r = parts_of(b, Tile::r * Tile::along_r);
  const double padding = static_cast<double>(tiles_r * Tile::r * Tile::along_r) / static_cast<double>(b) - 1;
  const double sharing = Tile::cluster == 1 ? 1.15 : Tile::cluster == 4 && tiles_r > 1 ? 1.5 : 1;
  return (1 + 0.4 * padding) * sharing * slowness_of_shared_lines<Tile, PREPARED>(problem) *
         (PREPARED && a * d * (b + c) <= 8192 ? 0.9 : 1);
}

// The same for tiles of two planes whose Y is buffered, and others; and where most of what crosses memory is Y, as an
// H200 took for four patterns.
template <class Tile>
double slowness_of_two_planes(const Problem& problem) {
  const int64_t b = problem.b, c = problem.c;
  if (b >= 2 * c) return !Tile::buffered ? 1.25 : Tile::r >= 128 ? 1.17 : 1;
  if (!Tile::buffered) return 1;
  if (c <= 64) return c < 64 ? 1.05 : 0.9;
  return b <= 96 ? 0.8 : Tile::r >= 128 ? 0.93 : 1.08;
}

// Of four planes. With 96 and 88 rows Y leaves in parts: 0.92 of the time for 6,768,192,4 and 16,384,96,4 on an H200,
// 0.95 for 4,384,384,4, 0.97 for longer c, and nothing gained where rows beyond b are many.
template <class Tile>
double slowness_of_four_planes(const Problem& problem) {
  const int64_t b = problem.b, c = problem.c, rows = Tile::r * Tile::along_r;
  if (!Tile::buffered) return 1;
  if (Tile::r == 64) return b >= 768 && c >= 768 ? 0.87 : 1.03;
  const bool gains = c >= 96 && 1.0 * (parts_of(b, rows) * rows) <= 1.15 * static_cast<double>(b);
  const double parts = !gains ? 1 : b >= 2 * c ? 0.92 : c <= 512 ? 0.95 : 0.97;
  if (Tile::cluster == 1) return parts;
  return parts * (b < 384 || c < 384 ? 1.03 : 1);
}

template <class Tile, bool PREPARED>
double slowness_of_planes(const Problem& problem) {
  const int64_t b = problem.b, c = problem.c;
  constexpr bool shares = Tile::cluster > 1;
  if (Tile::wide) return slowness_of_sectors<Tile, PREPARED>(problem);
  if (Tile::j == 2) return slowness_of_two_planes<Tile>(problem);
  if (Tile::j == 4) return slowness_of_four_planes<Tile>(problem);
  if (Tile::j == 8 && Tile::r == 48) return !PREPARED ? (shares && b >= 2 * c ? 1.3 : 1.15) : shares ? 1.27 : 1;
  if (Tile::j == 8 && Tile::r == 40) return PREPARED ? 0.86 : 1.08;
  if (Tile::j == 8 && Tile::r == 32) return 1.1;
  if (Tile::j == 12 && Tile::r == 64 && PREPARED) return !shares ? 0.93 : c < 512 ? 1.08 : 1;
  if (Tile::j == 12 && !PREPARED && shares) return 1.25;
  if (Tile::j == 12 && !PREPARED && b > 64) return Tile::r == 32 ? 1.25 : 1.1;
  if (Tile::j == 16 && Tile::r == 48) return PREPARED && shares && b < 384 ? 1.15 : 1;
  if (Tile::j == 16 && Tile::k == 32) return c > 64 ? 1.12 : 1;
  if (Tile::j == 16) return PREPARED && b >= 2 * c ? 1.15 : 1;
  if (Tile::j == 24) return PREPARED ? (shares ? 1.15 : 1.05) : shares ? 1.15 : c <= 96 ? 1.3 : c <= 128 ? 1 : 0.9;
  return 1;
}

// Of a row or a quad for a tile. Of planes as 15 patterns took on an H100, within an eighth. Of sectors as 26 did,
// mostly within a quarter; long rows of X and Y take longer, but with d of 48 only very long ones.
template <class Tile, bool PREPARED>
double seconds_of_four_blocks(const Problem& problem) {
  const auto& [a, b, c, d, batch, dtype, layout, precision] = problem;
  const double steps = parts_of(c, 16);
  if (!Tile::wide) {
    const double start = Tile::j == 12 ? 3.7e-6 : Tile::j == 24 ? 5.5e-6 : Tile::r == 48 ? 4.8e-6 : 2.6e-6;
    constexpr double of_24 = Tile::along_n == 1 ? 0.61e-6 : 0.75e-6;
    const double step = Tile::j == 12 ? 0.52e-6 : Tile::j == 24 ? of_24 : Tile::r == 48 ? 0.49e-6 : 0.43e-6;
    return (PREPARED ? 1 : 1.3) * (start + steps * step);
  }
  const double row_bytes = 1.0 * a * d * (b + c);
  const double far = std::clamp(1 + (row_bytes - (d == 48 ? 50e3 : 18e3)) / 35e3, d == 48 ? 1 : 1.2, 2.4);
  return 4e-6 + steps * (Tile::r == 48 ? 0.8e-6 : d < 64 ? 0.55e-6 : 0.47e-6) * far * (PREPARED ? 1 : 1.6);
}

}  // namespace ksmm::hopper
