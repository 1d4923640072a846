// What a tile of the planes kernel takes, and how it is launched. Host code.
#pragma once

#include <algorithm>

#include "../configuration.h"
#include "planes_tile.cuh"
#include "planes_weight.h"
#include "tensor_map.h"

namespace ksmm::hopper {

template <class Tile>
TensorBox planes_x(const Problem& problem, const Operands& operands) {
  const auto [a, b, c, d, batch, dtype, layout, precision] = problem;
  if (Tile::wide) return {4, {d, c, a, batch}, {1, d, c * d, operands.x_stride}, {Tile::j, Tile::k, 1, Tile::own_n}};
  return {3, {c * d, a, batch}, {1, c * d, operands.x_stride}, {Tile::row_bytes / 2, 1, Tile::own_n}};
}

template <class Tile>
TensorBox planes_weight(const Problem& problem, const Operands& operands) {
  const int64_t* strides = operands.weight_strides;
  return {4,
          {problem.c, problem.b, problem.d, problem.a},
          {1, strides[1], strides[3], strides[0]},
          {Tile::k, Tile::r, Tile::own_planes, 1}};
}

// Only for staged tiles.
template <class Tile>
TensorBox planes_y(const Problem& problem) {
  const auto [a, b, c, d, batch, dtype, layout, precision] = problem;
  if (Tile::wide) return {4, {d, b, a, batch}, {1, d, b * d, a * b * d}, {Tile::j, 8, 1, Tile::chunk_rows}};
  return {3, {b * d, a, batch}, {1, b * d, a * b * d}, {Tile::chunk_row_bytes / 2, 1, Tile::chunk_rows}};
}

// Whether the vectors in which Y is written are aligned.
template <class Tile>
bool planes_y_is_aligned(const Problem& problem, const Operands& operands) {
  if (Tile::staged) return can_describe(operands.y, problem.dtype, planes_y<Tile>(problem));
  const auto fits = [](int64_t size, int64_t count) { return count == 1 || size % Tile::vector == 0; };
  return reinterpret_cast<uintptr_t>(operands.y) % (2 * Tile::vector) == 0 &&
         fits(problem.a * problem.b * problem.d, problem.batch) && fits(problem.b * problem.d, problem.a) &&
         (!Tile::split || fits(problem.d, problem.b));
}

// How many clusters run at a time; blocks, where each is alone.
template <class Tile>
int clusters_of(const Machine& machine) {
  return Tile::cluster == 1 ? machine.multiprocessors : Tile::cluster == 2 ? machine.pairs : machine.quads;
}

// The tiles of a cluster.
template <class Tile>
struct PlanesTiles {
  int64_t along_r, along_j, along_n, all;
  explicit PlanesTiles(const Problem& problem)
      : along_r(parts_of(problem.b, Tile::r * Tile::along_r)),
        along_j(parts_of(problem.d, Tile::j)),
        along_n(parts_of(problem.batch, Tile::n * Tile::along_n)),
        all(problem.a * along_r * along_j * along_n) {}
};

// Whether blocks that are no cluster are launched by two, on neighbouring multiprocessors: neighbours along r read the
// same X at about the same time. Neighbours along j, which share lines of memory, are slower that way (docs/planes.md,
// "Blocks by two").
template <class Tile>
bool are_launched_by_two(const Problem& problem, const Machine& machine) {
  return Tile::cluster == 1 && !Tile::wide && problem.b > Tile::r && 2 * machine.pairs == machine.multiprocessors;
}

template <class Tile>
PlanesStages planes_stages(const Problem& problem) {
  return {Tile::j, Tile::r, Tile::k, parts_of(problem.b, Tile::r * Tile::along_r) * Tile::along_r};
}

// Clusters of four blocks leave 12 of an H100's 132 multiprocessors idle. So the last rows n of the batch, so many of
// them, are multiplied by pairs, beside the others. (Not sectors: neighbours that share lines of memory are then far
// apart.)
struct RowsBeside {
  int64_t beside;
  int pairs;
  double rounds;  // of clusters of four
};

// As many as let both end together, if a pair takes `slower` times as long for a tile.
template <class Tile>
RowsBeside rows_beside(const Problem& problem, const Machine& machine) {
  constexpr double slower = 1.2;
  using Pair = typename Tile::Pair;
  const int pairs = machine.overlaps ? (machine.multiprocessors - 4 * machine.quads) / 2 : 0;
  constexpr int64_t n = Tile::n * Tile::along_n;  // of a cluster of four
  const int64_t tiles_n = parts_of(problem.batch, n), others = problem.a * parts_of(problem.d, Tile::j);
  const int64_t of_fours = others * parts_of(problem.b, Tile::r * Tile::along_r);  // tiles for each tile of n
  const int64_t of_pairs = others * parts_of(problem.b, Pair::r * Pair::along_r) * Tile::along_n;
  RowsBeside best = {0, pairs, static_cast<double>(parts_of(of_fours * tiles_n, machine.quads))};
  if (pairs <= 0) return best;
  const double rate = 1.0 * machine.quads / of_fours, rate_beside = pairs / (slower * of_pairs);
  const int64_t share = static_cast<int64_t>(tiles_n * rate_beside / (rate + rate_beside));
  for (int64_t beside = std::max<int64_t>(1, share - 2); beside <= share + 2 && beside < tiles_n; ++beside) {
    const double rounds = std::max(1.0 * parts_of(of_fours * (tiles_n - beside), machine.quads),
                                   slower * parts_of(of_pairs * beside, pairs));
    if (rounds < best.rounds) best = {problem.batch - (tiles_n - beside) * n, pairs, rounds};
  }
  return best;
}

// PREPARED: whether W comes by stages.
template <class Tile, bool PREPARED>
bool planes_takes(const Problem& problem, const Operands& operands, const Machine& machine) {
  constexpr int64_t most_tiles = 1 << 30;  // a block counts its own on from each by as many as there are blocks
  const bool planes_fit = Tile::wide ? problem.d > 16 : problem.d == Tile::j;
  return machine.capability == 90 && machine.shared_limit >= Tile::shared_bytes && problem.dtype != Dtype::float32 &&
         clusters_of<Tile>(machine) > 0 && problem.layout == Layout::batch_first && planes_fit &&
         problem.c * problem.d <= INT32_MAX && PlanesTiles<Tile>(problem).all <= most_tiles &&
         can_describe(operands.x, problem.dtype, planes_x<Tile>(problem, operands)) &&
         (PREPARED || can_describe(operands.weight, problem.dtype, planes_weight<Tile>(problem, operands))) &&
         planes_y_is_aligned<Tile>(problem, operands);
}

// Enqueues the product (planes_instances.cuh); W comes from `stages`, or by its tensor where they are null.
template <class T, class Tile>
cudaError_t launch_planes(const Problem& problem, const Operands& operands, const void* stages, const Machine& machine,
                          cudaStream_t stream);

}  // namespace ksmm::hopper
