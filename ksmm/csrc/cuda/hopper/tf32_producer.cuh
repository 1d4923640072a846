// The thread of a kernel of the TF32 family that copies: which tiles a block takes, and X and W to the ring of stages.
#pragma once

#include "copy.cuh"
#include "tf32_fragments.cuh"
#include "tf32_shifted.cuh"

namespace ksmm::hopper {

template <class Tile>
struct Tf32Shared {
  Barrier full[Tile::stages], split[Tile::stages], empty[Tile::stages];
  union {
    int tile[Tile::stages];                 // of which a stage is, where tiles are handed out in turn
    uint8_t badly_scaled[Tile::stages][8];  // in parts: whether each warp that splits found W so; the tile's last stage
  };
};

struct Tf32Position {
  int i, plane_tile, batch_tile, row_tile;
};

// Neighbouring tiles differ in r, so that blocks that run together read the same X; then in j where sectors of X and Y
// are, so that the L2 cache sees whole lines of them.
template <class Tile>
__device__ inline Tf32Position position_of(const Tf32Task& task, int tile) {
  const auto next = [&](int tiles) {
    const int at = tile % tiles;
    tile /= tiles;
    return at;
  };
  constexpr bool sectors = Tile::access == Access::sectors;
  Tf32Position at;
  at.row_tile = next(task.row_tiles);
  if (sectors) at.plane_tile = next(task.plane_tiles);
  at.batch_tile = next(task.batch_tiles);
  if (!sectors) at.plane_tile = next(task.plane_tiles);
  at.i = tile;
  return at;
}

// The next tile of this block. In turn, whoever asks gets the next: blocks whose tiles share lines of X
// and Y are then never further apart than a tile takes. In a fixed order some fall behind from tile to tile (memory
// serves some multiprocessors better), until a line has left the L2 cache before the last of those that share it comes:
// with d = 64 and more such products took twice as long. Asked for before the tile is copied, the answer is there in
// time.
__device__ inline int ask_for_tile(const Tf32Task& task) {
  return static_cast<int>(gridDim.x) + atomicAdd(task.halves.handed_out, 1);
}

// The tile of the ring's next stage. The lane that gives a warp's stages back is the one that reads it.
template <class Tile>
__device__ inline int tile_of_stage(Tf32Shared<Tile>& shared, const Ring<Tile::stages>& ring) {
  shared.full[ring.slot].wait(ring.phase);
  return __shfl_sync(~0u, threadIdx.x % 32 == 0 ? shared.tile[ring.slot] : 0, 0);
}

// The number of a tile of W.
__device__ inline int weight_tile(const Tf32Task& task, const Tf32Position& at) {
  return (at.i * task.plane_tiles + at.plane_tile) * task.row_tiles + at.row_tile;
}

// Which tiles this kernel leaves out: W as halves those whose W is uneven, and the one that follows it all that its
// warps did not leave to it.
template <class Tile>
__device__ inline bool leaves_out(const Tf32Task& task, const Tf32Position& at, int tile) {
  if constexpr (Tile::in_halves) return __ldg(task.halves.uneven + weight_tile(task, at)) != 0;
  return task.halves.left != nullptr && __ldg(task.halves.left + tile) == 0;
}

// Whether there is anything to do for this block, all threads of which call it.
__device__ inline bool any_left(const Tf32Task& task) {
  bool found = false;
  for (int tile = blockIdx.x + threadIdx.x * gridDim.x; tile < task.tiles; tile += blockDim.x * gridDim.x)
    found |= __ldg(task.halves.left + tile) != 0;
  return __syncthreads_or(found);
}

template <class Tile>
__device__ inline void copy_x(const Tf32Task& task, const Tf32Position& at, int k, char* stage, Barrier& full) {
  const int n = at.batch_tile * Tile::batch, j = at.plane_tile * Tile::planes;
  if constexpr (Tile::access == Access::rows) {
    for (int box = 0; box < Tile::batch / 32; ++box)
      load(stage + box * (Tile::k * 128), task.x, full, Keep::normal, n + box * 32, j, k, at.i);
  } else if constexpr (Tile::access == Access::shifted) {
    copy_shifted<Tile>(task, at.i, j, n, k, stage, full);
  } else {
    for (int box = 0; box < Tile::planes * Tile::k / 32; ++box) {
      char* const to = stage + box * (Tile::batch * 128);
      if constexpr (Tile::access == Access::runs)
        load(to, task.x, full, Keep::normal, k * Tile::planes + box * 32, at.i, n);
      else
        load(to, task.x, full, Keep::normal, j, k + box * 4, at.i, n);
    }
  }
}

template <class Tile>
__device__ inline void copy_weight(const Tf32Task& task, const Tf32Position& at, int k, char* stage, Barrier& full) {
  if constexpr (Tile::in_halves) {
    const int64_t steps = (task.c + Tile::k - 1) / Tile::k, step = weight_tile(task, at) * steps + k / Tile::k;
    load_bytes(stage + Tile::x_bytes, task.halves.stages + step * Tile::weight_bytes, Tile::weight_bytes, full,
               Keep::last_out);
  } else {
    load(stage + Tile::x_bytes, task.weight, full, Keep::last_out, k, at.row_tile * Tile::rows,
         at.plane_tile * Tile::planes, at.i);
  }
}

template <class Tile>
__device__ inline void produce(const Tf32Task& task, char* stages, Tf32Shared<Tile>& shared) {
  Ring<Tile::stages> ring;
  for (int tile = blockIdx.x, asked = 0; tile < task.tiles; tile = Tile::in_turn ? asked : tile + gridDim.x) {
    if constexpr (Tile::in_turn) asked = ask_for_tile(task);
    const Tf32Position at = position_of<Tile>(task, tile);
    if (leaves_out<Tile>(task, at, tile)) {
      if constexpr (Tile::in_turn) task.halves.left[tile] = ~0ull;  // those that multiply do not hear of it
      continue;
    }
    for (int k = 0; k < task.c; k += Tile::k, ring.advance()) {
      char* const stage = stages + ring.slot * Tile::stage_bytes;
      shared.empty[ring.slot].wait(ring.phase ^ 1);
      if constexpr (Tile::in_turn) shared.tile[ring.slot] = tile;
      shared.full[ring.slot].arrive_expecting(Tile::x_bytes + Tile::weight_bytes);
      copy_x<Tile>(task, at, k, stage, shared.full[ring.slot]);
      copy_weight<Tile>(task, at, k, stage, shared.full[ring.slot]);
    }
  }
  if constexpr (Tile::in_turn) {  // a stage of no tile: the end
    shared.empty[ring.slot].wait(ring.phase ^ 1);
    shared.tile[ring.slot] = task.tiles;
    shared.full[ring.slot].arrive();
  }
}

}  // namespace ksmm::hopper
