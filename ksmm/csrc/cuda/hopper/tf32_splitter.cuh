// The warps of a kernel of the TF32 family that make of W in the ring of stages what the matrix units read: three
// parts, or W rounded. On the way they look whether W is badly scaled (tf32_again.cuh).
#pragma once

#include "tf32_again.cuh"
#include "tf32_producer.cuh"

namespace ksmm::hopper {

// The stages of a tile. With the last one each warp says whether it found W badly scaled: now, where it WATCHES W, or
// before. Returns that.
template <class Tile, bool WATCHES>
__device__ inline bool split_tile(const Tf32Task& task, char* stages, Tf32Shared<Tile>& shared,
                                  Ring<Tile::stages>& ring, bool found, int thread) {
  SpreadOfWeight<Tile> spread;
  for (int k = 0; k < task.c; k += Tile::k, ring.advance()) {
    char* const weight = stages + ring.slot * Tile::stage_bytes + Tile::x_bytes;
    shared.full[ring.slot].wait(ring.phase);
    for (int chunk = thread, index = 0; chunk < Tile::weight_bytes / 32; chunk += Tile::splitter_threads, ++index)
      split_chunk<Tile>(weight, chunk, [&](const float4& low, const float4& high) {
        if constexpr (WATCHES) spread.look_at(low, high, k / Tile::k, index);
      });
    if (k + Tile::k >= task.c) {
      if constexpr (WATCHES) found = spread.of_warp((task.c + Tile::k - 1) / Tile::k);
      if (thread % 32 == 0) shared.badly_scaled[ring.slot][thread / 32] = found;
    }
    fence_for_engines();
    shared.split[ring.slot].arrive();
  }
  return found;
}

template <class Tile>
__device__ inline void round_tile(const Tf32Task& task, char* stages, Tf32Shared<Tile>& shared,
                                  Ring<Tile::stages>& ring, int thread) {
  for (int k = 0; k < task.c; k += Tile::k, ring.advance()) {
    char* const weight = stages + ring.slot * Tile::stage_bytes + Tile::x_bytes;
    shared.full[ring.slot].wait(ring.phase);
    for (int chunk = thread; chunk < Tile::weight_bytes / 16; chunk += Tile::splitter_threads)
      round_chunk(weight, chunk);
    fence_for_engines();
    shared.split[ring.slot].arrive();
  }
}

template <class Tile>
__device__ inline void split_weight(const Tf32Task& task, char* stages, Tf32Shared<Tile>& shared, int thread) {
  Ring<Tile::stages> ring;
  WatchedWeight watched;
  for (int tile = blockIdx.x; tile < task.tiles; tile += gridDim.x) {
    const Tf32Position at = position_of<Tile>(task, tile);
    if (leaves_out<Tile>(task, at, tile)) continue;
    const int of_weight = at.plane_tile * task.row_tiles + at.row_tile;
    if constexpr (Tile::in_parts) {
      if (watched.knows(at.i, of_weight))
        split_tile<Tile, false>(task, stages, shared, ring, watched.has(of_weight), thread);
      else
        watched.remember(of_weight, split_tile<Tile, true>(task, stages, shared, ring, false, thread));
    } else {
      round_tile<Tile>(task, stages, shared, ring, thread);
    }
  }
}

// Whether any of the warps that split W found the tile badly scaled whose last stage is in a slot. All lanes call it;
// the one that gives the stage back reads.
template <class Tile>
__device__ inline bool is_badly_scaled(const Tf32Shared<Tile>& shared, int slot) {
  bool found = false;
  if (threadIdx.x % 32 == 0)
#pragma unroll
    for (int warp = 0; warp < Tile::splitter_threads / 32; ++warp) found |= shared.badly_scaled[slot][warp] != 0;
  return __any_sync(~0u, found);
}

}  // namespace ksmm::hopper
