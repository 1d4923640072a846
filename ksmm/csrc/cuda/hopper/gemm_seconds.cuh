// How long the gemm kernels are expected to need: what the cost model knows of them, measured on H200s. Host code.
#pragma once

#include <algorithm>
#include <cmath>

#include "gemm.h"
#include "gemm_launch.cuh"

namespace ksmm::hopper {

inline int64_t gemm_steps(const GemmView& view) { return parts_of(view.c, gemm_step); }

inline double gemm_rounded_up(double size, double multiple) { return std::ceil(size / multiple) * multiple; }

// How much longer than others a tile takes to read and write the same.
inline double gemm_slowness(const GemmView& view, GemmTile tile) {
  const bool writes = view.c <= 128 || view.b >= 4 * view.c, partly = view.b > 256 && view.b % 256 != 0;
  if (tile.hold == GemmHold::streamed) return tile.columns < 256 ? 1.05 : partly ? 1.2 : 1.03;
  if (tile.hold == GemmHold::alternating && tile.columns == 192) return 1.04;
  if (tile.hold == GemmHold::alternating) return writes ? 1.02 : 1.15;
  if (view.b > tile.columns) return view.b < 4 * view.c ? 1.05 : view.c > 128 ? 1.0 : 1.12;
  return 0.95 + 0.06 * (tile.columns - static_cast<double>(view.b)) / static_cast<double>(view.b);
}

// Of pairs of blocks that stay for many tiles, with 256 n at a time: memory, the L2 cache or the matrix units.
inline double seconds_of_pairs(const GemmView& view, GemmTile tile, const Machine& machine) {
  const double planes = static_cast<double>(view.groups_i) * view.groups_j, pairs = machine.multiprocessors / 2.0;
  const double columns = gemm_rounded_up(view.b, tile.columns), rows = gemm_rounded_up(view.rows, rows_of_pair);
  const double passes = columns / tile.columns, all = planes * passes * rows / rows_of_pair;
  const double waves = gemm_rounded_up(all, pairs) / all;
  // writes take 1.3 times as long as reads, and the matrix units reach so much of a plain product
  const double reads = 2 * planes * view.c * (view.rows + static_cast<double>(view.b));
  const double writes = 2 * planes * view.rows * view.b;
  const double slower = gemm_slowness(view, tile) * (0.99 + 0.01 * passes);
  const double memory = slower * (reads / 1.03 + writes / 0.8) / machine.memory_rate;
  const double operations = 2 * planes * rows * columns * gemm_rounded_up(view.c, gemm_step);
  const double reached = tile.columns < 192            ? 0.83
                         : tile.columns == 256         ? 0.92
                         : tile.hold == GemmHold::wide ? 0.95
                                                       : 0.93;
  const double matrix = operations / (reached * machine.matrix_rate) * waves;
  // what comes out of the L2 cache: X for each tile of columns, W for each pair, and Y into it
  const double x_reads = view.c * rows * passes, weight_reads = view.c * columns * rows / rows_of_pair;
  const double cached = 2 * planes * (x_reads + weight_reads + rows * view.b);
  const double least = 2.1e-6 + 0.1e-6 * static_cast<double>(gemm_steps(view));
  // warpgroups that take tiles in turn end at different times
  const double ends = tile.hold == GemmHold::wide ? 1 + 0.3 * (waves - 1) : waves;
  return least + std::max({memory * std::min(ends, 1.5), matrix, cached / (1.4 * machine.cache_rate)}) +
         0.05 * (memory + matrix * (0.99 + 0.01 * passes));
}

// Of blocks that have one tile each, where the L2 cache keeps all: what a block takes, some of it again for each other
// block of a multiprocessor and most of it for each round of them, and the L2 cache. Within 7 % of 931 times of 17
// patterns, 80 to 8,192 rows and six tiles on an H200 in the mean; 25,088 rows of 1,256,40,1 take twice as long.
template <class Tile>
double seconds_of_small_single(double tiles, double k_steps, double blocks, const Machine& machine) {
  const double block = 5.2e-9 * Tile::columns * Tile::blocks + (0.104e-6 + 0.029e-6 * Tile::blocks) * k_steps;
  const double share = tiles / machine.multiprocessors, beside = std::max(0.0, std::min(share, blocks) - 1);
  const double bytes = tiles * (k_steps * 128 * (Tile::rows + Tile::columns) + 2.0 * Tile::rows * Tile::columns);
  const double rounds = std::max(0.0, share / blocks - 1);
  return 1e-6 + block * (1 + 0.7 * beside + 1.4 * rounds) + 0.27 * bytes / machine.cache_rate;
}

// Of blocks that have one tile each: memory, or the L2 cache, which also keeps X of small products that come again and
// again; with less overlap where few blocks fit on a multiprocessor. Within 7 % of 82 times in the mean.
template <class Tile>
double seconds_of_single(const GemmView& view, const Machine& machine) {
  const double planes = static_cast<double>(view.groups_i) * view.groups_j;
  const double k_steps = static_cast<double>(gemm_steps(view)), passes = std::ceil(1.0 * view.b / Tile::columns);
  const double tiles = planes * passes * std::ceil(1.0 * view.rows / Tile::rows);
  const double reads = 2 * planes * view.c * view.rows, writes = 2 * planes * view.b * view.rows;
  const double kept = std::min(1.0, 45e6 / (reads + writes)), first = view.rows_contiguous ? 1 : 0.86;
  const double memory = first * (0.88 * (1 - 0.56 * kept) * reads + 1.27 * writes) / machine.memory_rate;
  const double cache =
      tiles * (k_steps * 128 * (Tile::rows + Tile::columns) + 2.0 * Tile::rows * Tile::columns) / machine.cache_rate;
  const double matrix = 2 * tiles * Tile::rows * Tile::columns * k_steps * gemm_step / (0.6 * machine.matrix_rate);
  const double of_shared = std::floor(machine.shared_limit / (Tile::shared_bytes(gemm_steps(view)) + 1024.0));
  const double of_registers = std::floor(65536.0 / (Tile::threads * (Tile::blocks * Tile::columns / 2 + 44)));
  const double blocks = std::max(1.0, std::min(of_shared, of_registers));  // of a multiprocessor
  if (view.spread == 1 && view.rows <= 8192 && reads + writes < 16e6)
    return seconds_of_small_single<Tile>(tiles, k_steps, blocks, machine);
  // threads make the spread W of each tile, D + 3 times eight instructions of a warp for 16 rows and 64 k; by 72 times
  // all then takes 1.4 times as long as that
  const double d = static_cast<double>(view.spread), rounds = view.spread > 1 ? std::ceil(k_steps / d) : 0;
  const double spreading = tiles * rounds * Tile::columns / 16 * 8 * (d + 3) / (machine.multiprocessors * 1.8e9);
  const double longer = view.spread > 1 ? 1.4 : 1;
  // blocks of 64 n write small products of large b slowly: 1,192,48,1 takes 7.4 instead of 5.7 us
  const double short_writes = Tile::blocks == 1 && writes > 2 * reads && kept == 1 ? 1.3 : 1;
  // twice as many blocks that read 96 columns of W: 1.02 to 1.22 times as long as with 128 n for c of 96, by ten times
  const double again = Tile::blocks == 1 && Tile::columns == 96 && k_steps == 2 ? 1.12 : 1;
  // what a tile's sums take on their way out: with 1 to 77 rows tiles of 128 r took 0.27 us longer than those of 64, in
  // the median of 86 products on an H200
  const double out = 4e-9 * Tile::columns;
  return 1.35e-6 + out + 0.2e-6 * k_steps + (0.45e-6 + 0.15e-6 * Tile::blocks) * rounds + 0.1 * cache +
         longer * std::max({memory, 0.53 * cache, matrix + spreading}) * (0.89 + 0.11 * passes) * (1 + 0.43 / blocks) *
             short_writes * again;
}

// Of blocks that stay with a matrix of W spread over planes: making it, then memory or the matrix units, whose first
// and last tiles nothing hides. Within 5 % of 210 times of 16 patterns on an H100 in the mean.
template <class Tile>
double seconds_of_resident(const GemmView& view, const Machine& machine) {
  const ResidentShares<Tile> shares(view, machine);
  const double k_steps = static_cast<double>(gemm_steps(view)), columns = Tile::columns;
  const double made = static_cast<double>(shares.made), tiles = static_cast<double>(shares.tiles);
  const double passes = std::ceil(1.0 * view.b / columns);
  const double bytes = 2.0 * view.groups_i * view.rows * (view.c + view.b);
  const double memory = (1 - 0.62 * std::min(1.0, 45e6 / bytes)) * bytes / (0.73 * machine.memory_rate);
  const double operations = 2.0 * gemm_rows * columns * gemm_step * k_steps * tiles;
  const double matrix = 0.56 * operations * machine.multiprocessors / machine.matrix_rate;
  const double alone = Tile::warpgroups == 3 ? 0.8 : 1;  // of the products
  const double all = 3.3e-6 + 0.16e-6 * made * k_steps * columns / 64 + std::max(memory, matrix) + alone * matrix;
  return all * (0.96 + 0.04 * passes);
}

}  // namespace ksmm::hopper
