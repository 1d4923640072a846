// What the planes kernel's two producers do: a thread fetches X, and another W, each into its ring of stages.
#pragma once

#include "copy.cuh"
#include "planes_store.cuh"

namespace ksmm::hopper {

template <class Tile>
struct PlanesShared {
  Barrier full_x[Tile::x_stages], empty_x[Tile::x_stages];
  Barrier full_weight[Tile::weight_stages], empty_weight[Tile::weight_stages];
  Barrier full_bias, empty_bias;
  alignas(16) uint16_t bias[Tile::r * Tile::j];  // of a tile, [r][j]
};

// A block of a cluster, and those that it shares X or W with.
template <class Tile>
struct PlanesCluster {
  static constexpr int R = Tile::along_r, N = Tile::along_n;
  int rank;

  __device__ PlanesCluster() : rank(Tile::cluster > 1 ? static_cast<int>(rank_in_cluster()) : 0) {}
  __device__ int along_r() const { return rank / N; }
  __device__ int along_n() const { return rank % N; }
  // A bit for each block with the same X, and with the same W.
  __device__ uint16_t with_same_x() const {
    uint16_t blocks = 0;
    for (int r = 0; r < R; ++r) blocks |= 1u << (along_n() + N * r);
    return blocks;
  }
  __device__ uint16_t with_same_weight() const { return ((1u << N) - 1) << N * along_r(); }
  // Says, from all lanes of a warp, to the blocks with the same X (or W) that this one has read a stage of it.
  __device__ void give_x_back(Barrier& empty, int lane) const {
    if constexpr (R > 1) {
      if (lane < R) empty.arrive_at(along_n() + N * lane);
    } else if (lane == 0) {
      empty.arrive();
    }
  }
  __device__ void give_weight_back(Barrier& empty, int lane) const {
    if constexpr (N > 1) {
      if (lane < N) empty.arrive_at(N * along_r() + lane);
    } else if (lane == 0) {
      empty.arrive();
    }
  }
};

// The number of a tile's first stage in W by stages.
template <class Tile>
__device__ int64_t weight_stage(const PlanesTask& task, const PlanesOrigin& origin) {
  const int64_t tile_j = static_cast<int64_t>(origin.i) * task.tiles_j + origin.j / Tile::j;
  return (tile_j * task.stages_r + origin.r / Tile::r) * ((task.c + Tile::k - 1) / Tile::k);
}

// What a block fetches of such a stage.
template <class Tile>
__device__ void fetch_prepared(uint16_t blocks, char* to, const char* from, Barrier& full) {
  constexpr uint32_t bytes = Tile::own_planes * Tile::plane_bytes;
  if constexpr (Tile::along_n > 1)
    load_bytes_for(blocks, to, from, bytes, full, Keep::last_out);
  else
    load_bytes(to, from, bytes, full, Keep::last_out);
}

// Waits until a stage that so many blocks share may be written, and says how many bytes will come.
template <int SHARERS>
__device__ void begin_stage(Barrier& full, Barrier& empty, uint32_t phase, uint32_t bytes) {
  if constexpr (SHARERS > 1)
    empty.wait_for_cluster(phase ^ 1);
  else
    empty.wait(phase ^ 1);
  full.arrive_expecting(bytes);
}

// One thread fetches X.
template <class Tile>
__device__ void produce_x(const PlanesTask& task, const CUtensorMap& x, char* ring, PlanesShared<Tile>& shared) {
  const PlanesCluster<Tile> cluster;
  const int n = Tile::by_rows ? cluster.along_r() * Tile::own_n : 0;
  Ring<Tile::x_stages> at;
  for (int tile = blockIdx.x / Tile::cluster; tile < task.tiles; tile += gridDim.x / Tile::cluster) {
    const PlanesOrigin origin = planes_origin<Tile>(task, tile, cluster.rank);
    for (int k = 0; k < task.c; k += Tile::k, at.advance()) {
      Barrier& full = shared.full_x[at.slot];
      begin_stage<Tile::along_r>(full, shared.empty_x[at.slot], at.phase, Tile::x_bytes);
      const auto fetch = [&](char* to, auto... at_coordinates) {
        if constexpr (Tile::along_r > 1)
          load_for(cluster.with_same_x(), to, x, full, task.x_keep, at_coordinates...);
        else
          load(to, x, full, task.x_keep, at_coordinates...);
      };
      char* const stage = ring + at.slot * Tile::x_bytes + n * Tile::pitch;
#pragma unroll
      for (int own = 0; own < Tile::own_boxes; ++own) {
        const int box = Tile::by_rows ? own : own * Tile::along_r + cluster.along_r();
        if constexpr (Tile::wide)
          fetch(stage, origin.j, k, origin.i, origin.n + n);
        else
          fetch(stage + box * Tile::n * Tile::row_bytes, k * Tile::j + box * (Tile::row_bytes / 2), origin.i,
                origin.n + n);
      }
    }
  }
}

// One thread fetches W.
template <class Tile>
__device__ void produce_weight(const PlanesTask& task, const CUtensorMap& weight, char* ring,
                               PlanesShared<Tile>& shared) {
  const PlanesCluster<Tile> cluster;
  const int plane = cluster.along_n() * Tile::own_planes;
  Ring<Tile::weight_stages> at;
  for (int tile = blockIdx.x / Tile::cluster; tile < task.tiles; tile += gridDim.x / Tile::cluster) {
    const PlanesOrigin origin = planes_origin<Tile>(task, tile, cluster.rank);
    const char* const of_tile = task.weight + weight_stage<Tile>(task, origin) * Tile::weight_bytes;
    for (int k = 0; k < task.c; k += Tile::k, at.advance()) {
      Barrier& full = shared.full_weight[at.slot];
      begin_stage<Tile::along_n>(full, shared.empty_weight[at.slot], at.phase, Tile::weight_bytes);
      char* const to = ring + at.slot * Tile::weight_bytes + plane * Tile::plane_bytes;
      const char* const prepared = of_tile + k / Tile::k * Tile::weight_bytes + plane * Tile::plane_bytes;
      if (task.weight != nullptr)
        fetch_prepared<Tile>(cluster.with_same_weight(), to, prepared, full);
      else if constexpr (Tile::along_n > 1)
        load_for(cluster.with_same_weight(), to, weight, full, Keep::last_out, k, origin.r, origin.j + plane, origin.i);
      else
        load(to, weight, full, Keep::last_out, k, origin.r, origin.j + plane, origin.i);
    }
  }
}

}  // namespace ksmm::hopper
