// What the gemm kernels have in common whose blocks are clusters of two, with 128 n each and the same r: where tiles
// are, and how X and W come. Each block loads half of W for both.
#pragma once

#include "gemm_epilogue.cuh"
#include "overlap.cuh"

namespace ksmm::hopper {

// Where a tile of a cluster is: planes that are neighbours in memory follow each other in time (GemmTask::planes), then
// r, so that the blocks that share X run at nearly the same time, then n. Groups of tiles with the same n begin with
// another r than the ones before (GemmTask::turn). Of 66 clusters each takes every 66th tile, and would else have the
// same r for all of them, or one of few, where the last r of b may be fewer than others; where they are as many,
// clusters in teams shall each have one (form_teams).
template <class Tile>
struct PairPlace {
  int r, n, i, j;
  __host__ __device__ PairPlace(const GemmTask& task, int tile, int rank) {
    const int of_planes = Tile::in_teams ? tile : tile / task.planes;
    const int rest = of_planes / task.column_tiles, group = rest / task.row_tiles;
    unsigned turned = of_planes + rest;  // for a signed one ptxas finds no registers in gemm_parted.cuh
    if constexpr (Tile::in_teams) turned = tile + task.turn * (rest * task.column_tiles / task.turn_every);
    r = static_cast<int>(turned % task.column_tiles) * Tile::columns;
    n = (rest % task.row_tiles * 2 + rank) * 2 * gemm_rows;
    const int plane = Tile::in_teams ? group : group * task.planes + tile % task.planes;
    i = plane / task.groups_j, j = plane % task.groups_j;
  }
};

// Which tiles a cluster has: every stride-th from the first on, before the end. Each team of clusters has a part of all
// tiles, one after the other, so that a cluster's next tile mostly has the same i and j, and r where that is its own.
template <class Tile>
struct PairShare {
  int first, stride, end;
  __host__ __device__ PairShare(const GemmTask& task, int cluster, int clusters)
      : first(cluster), stride(clusters), end(task.tiles) {
    if constexpr (Tile::in_teams) {
      const int group = cluster / task.abreast, groups = task.tiles / task.abreast;
      const int team = group % task.teams, least = groups / task.teams, more = groups % task.teams;
      const int begin = least * team + (team < more ? team : more);
      first = (begin + group / task.teams) * task.abreast + cluster % task.abreast, stride = clusters / task.teams;
      end = (begin + least + (team < more ? 1 : 0)) * task.abreast;
    }
  }
};

// That of the block that asks.
template <class Tile>
__device__ PairShare<Tile> own_share(const GemmTask& task) {
  return {task, static_cast<int>(blockIdx.x) / Tile::cluster, static_cast<int>(gridDim.x) / Tile::cluster};
}

// Where in c a cluster's tile is at each of its steps, and at which of them the ring has its W already.
//
// In teams, a tile with the W of the one before begins with those c that the stages have which come next. Else, of the
// blocks that share X, which run at the same time, every second one begins with the second stage, so that they do not
// ask memory for the same bytes at the same moment. Tiles of more than three stages, and of 256 columns, gain nothing
// by that, or lose a little (docs/gemm.md, "W that the ring has", "The second stage first").
template <class Tile>
struct PairSteps {
  int all, first = 0, kept_from = 0, kept_to = 0;
  int r = -1, i = -1, j = -1, before = 0;  // tiles in a row with this W

  __host__ __device__ explicit PairSteps(const GemmTask& task) : all(task.k_steps) {}
  __host__ __device__ void begin(const GemmTask& task, const PairPlace<Tile>& place) {
    if constexpr (Tile::in_teams) {
      const bool same = place.r == r && place.i == i && place.j == j;
      r = place.r, i = place.i, j = place.j;
      first = same ? (first + task.in_ring.shift) % all : 0, before = same ? before + 1 : 0;
      kept_from = task.in_ring.from, kept_to = before >= task.in_ring.after ? task.in_ring.to : 0;
    } else {
      first = all <= 3 ? place.r / Tile::columns % 2 : 0;
    }
  }
  __host__ __device__ int k(int step) const {
    const int at = Tile::in_teams ? first + step : step ^ first;
    if (at < all) return at * gemm_step;
    return (Tile::in_teams ? at - all : step) * gemm_step;
  }
  __host__ __device__ bool keeps_weight(int step) const { return step >= kept_from && step < kept_to; }
};

// Asks for the first stages into the L2 cache while kernels that came before still run, which may yet write them: they
// are not loaded before those are complete (docs/gemm.md, "Asked for ahead").
template <class Tile, bool ROWS_CONTIGUOUS>
__device__ void prefetch_pairs(const GemmTask& task) {
  const int rank = static_cast<int>(rank_in_cluster());
  if (static_cast<int>(blockIdx.x) >= task.ahead) return;
  int left = 4;  // three measured as four, or less well, and so did eight, and a ring full
  const auto share = own_share<Tile>(task);
  PairSteps<Tile> steps(task);
  for (int tile = share.first; tile < share.end; tile += share.stride) {
    const PairPlace<Tile> place(task, tile, rank);
    steps.begin(task, place);
    for (int step = 0; step < task.k_steps; ++step) {
      if (left-- == 0) return;
      const int k = steps.k(step);
      for (int block = 0; block < 2; ++block)
        prefetch_x<ROWS_CONTIGUOUS>(task, place.n + block * gemm_rows, k, place.i, place.j);
      prefetch_box(task.weight, Keep::last_out, k, place.r + rank * (Tile::columns / Tile::cluster), place.j, place.i);
    }
  }
}

// One thread keeps the ring of stages full, also while sums are on their way to Y.
template <class Tile, bool ROWS_CONTIGUOUS, class Shared>
__device__ void feed_pairs(const GemmTask& task, Shared& shared, unsigned char* x, unsigned char* weight) {
  static_assert(Tile::cluster == 2 && Tile::x_bytes == 2 * gemm_box, "two blocks with 128 n each");
  const int rank = static_cast<int>(rank_in_cluster());
  constexpr int half = Tile::columns / Tile::cluster;
  Ring<Tile::stages> ring;
  const auto share = own_share<Tile>(task);
  PairSteps<Tile> steps(task);
  for (int tile = share.first; tile < share.end; tile += share.stride) {
    const PairPlace<Tile> place(task, tile, rank);
    steps.begin(task, place);
    for (int step = 0; step < task.k_steps; ++step, ring.advance()) {
      Barrier& full = shared.full[ring.slot];
      const int k = steps.k(step);
      const bool keeps_weight = steps.keeps_weight(step);
      shared.empty[ring.slot].wait_for_cluster(ring.phase ^ 1);
      full.arrive_expecting(Tile::x_bytes + (keeps_weight ? 0 : Tile::weight_bytes));
      for (int block = 0; block < 2; ++block)
        load_box<ROWS_CONTIGUOUS>(x + ring.slot * Tile::x_bytes + block * gemm_box, task.x, task.x_keep, full,
                                  place.n + block * gemm_rows, k, place.i, place.j);
      if (keeps_weight) continue;
      load_for(3, weight + ring.slot * Tile::weight_bytes + rank * half * 128, task.weight, full, Keep::last_out, k,
               place.r + rank * half, place.j, place.i);
    }
  }
}

// What the warps beside the consumers do: a thread of them feeds.
template <class Tile, bool ROWS_CONTIGUOUS, class Shared>
__device__ void help_pairs(const GemmTask& task, Shared& shared, unsigned char* x, unsigned char* weight) {
  const bool feeds = threadIdx.x == Tile::consumers;
  if (feeds) prefetch_pairs<Tile, ROWS_CONTIGUOUS>(task);
  wait_for_kernels_before();
  if (feeds) feed_pairs<Tile, ROWS_CONTIGUOUS>(task, shared, x, weight);
}

}  // namespace ksmm::hopper
