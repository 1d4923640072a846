// How the warpgroups of gemm's widest streamed tile multiply: its sums leave in two parts. At the last stage of c, and
// at the first of the next tile, the products of one part are under way while the other is on its way to Y, so that the
// matrix units do not wait for the stores.
#pragma once

#include "gemm_pairs.cuh"

namespace ksmm::hopper {

// The sums of COLUMNS columns from column FIRST on, as an array of their own.
template <int FIRST, int COLUMNS, int ALL>
__device__ auto& part_of(float (&sums)[ALL]) {
  static_assert(FIRST + COLUMNS <= 2 * ALL, "columns of the tile");
  return *reinterpret_cast<float (*)[COLUMNS / 2]>(&sums[FIRST / 2]);
}

template <class T, class Tile, bool ROWS_CONTIGUOUS, class Shared>
__device__ void multiply_parted(const GemmTask& task, Shared& shared, unsigned char* x, unsigned char* weight,
                                unsigned char* staging) {
  // of equal size: ptxas finds no registers for others, and makes the products wait for each other
  constexpr int part = Tile::columns / 2;
  static_assert(part % 64 == 0, "Y is written 64 columns at a time");
  const int rank = static_cast<int>(rank_in_cluster());
  const auto share = own_share<Tile>(task);
  // not warpgroup_of_block(), by which ptxas finds no registers for the pipeline and serialises the products
  const int warpgroup = threadIdx.x / 128, thread = threadIdx.x % 128;
  float sums[Tile::columns / 2];
  auto& early = part_of<0, part>(sums);
  auto& late = part_of<part, part>(sums);
  const uint32_t own_x = shared_address(x + warpgroup * gemm_box), own_weight = shared_address(weight);
  uint16_t* bias = shared.bias[warpgroup];
  const uint16_t* start = task.bias == nullptr ? nullptr : bias;
  Ring<Tile::stages> ring;
  BiasFetch<Tile::columns> fetch;
  Outlet<T, ROWS_CONTIGUOUS, Tile::buffers> outlet{staging + warpgroup * Tile::buffers * gemm_box, 1 + warpgroup};
  // Of the stage in the ring's slot.
  const auto multiply = [&](auto& some, int first_column) {
    constexpr int columns = 2 * sizeof(some) / sizeof(float);
    begin_products();
    multiply_stage<T, columns, ROWS_CONTIGUOUS>(some, own_x + ring.slot * Tile::x_bytes,
                                                own_weight + ring.slot * Tile::weight_bytes + first_column * 128);
    commit_products();
  };
  const auto put = [&](const float (&some)[part / 2], const PairPlace<Tile>& place, int first_column) {
    outlet.template put<part>(some, task, place.n + warpgroup * gemm_rows, place.r + first_column, place.i, place.j);
  };
  const auto release = [&](int slot) {
    if (thread < Tile::cluster) shared.empty[slot].arrive_at(thread);
  };
  const auto begin_tile = [&] {
    fetch.write(task, bias, 1 + warpgroup);
    start_sums<T, part>(early, start);
    shared.full[ring.slot].wait(ring.phase);
    multiply(early, 0);
  };
  {
    const PairPlace<Tile> place(task, share.first, rank);
    fetch.read(task, place.r, place.i, place.j);
  }
  begin_tile();
  for (int tile = share.first;; tile += share.stride) {
    const PairPlace<Tile> place(task, tile, rank);
    start_sums<T, part>(late, start == nullptr ? nullptr : start + part);
    multiply(late, part);
    const bool is_last = tile + share.stride >= share.end;
    if (!is_last) {
      const PairPlace<Tile> next(task, tile + share.stride, rank);
      fetch.read(task, next.r, next.i, next.j);
    }
    int last_slot = ring.slot;
    ring.advance();
    for (int step = 1; step < task.k_steps; ++step) {
      shared.full[ring.slot].wait(ring.phase);
      if (step + 1 < task.k_steps) {
        multiply(sums, 0);
        wait_for_products<1>();
      } else {
        multiply(early, 0);
        multiply(late, part);
        wait_for_products<2>();
      }
      release(last_slot);
      last_slot = ring.slot;
      ring.advance();
    }
    wait_for_products<1>();
    fence_sums<part>(early);
    put(early, place, 0);
    wait_for_products<0>();
    fence_sums<part>(late);
    release(last_slot);
    if (is_last) {
      put(late, place, part);
      break;
    }
    begin_tile();
    put(late, place, part);
    fence_sums<part>(early);  // or the compiler makes the products wait for each other
  }
  if (thread == 0) wait_for_store_reads<0>();
}

}  // namespace ksmm::hopper
