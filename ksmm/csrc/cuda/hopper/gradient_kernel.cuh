// The kernel for gradients of weights in batch_first with d > 1 on compute capability 9.0: one pass over X and ∂Y.
//
// A warp issues copies of both into a ring of stages; eight warps multiply what is there (gradient_products.cuh).
#pragma once

#include "../matrix_unit.cuh"
#include "copy.cuh"
#include "gradient_products.cuh"
#include "overlap.cuh"

namespace ksmm::hopper {

template <class Tile>
struct GradientShared {
  Barrier full[Tile::stages], empty[Tile::stages];
};

// One thread fetches X and ∂Y. Boxes that begin beyond an i are left out: no sum that is kept depends on them.
template <class Tile>
__device__ void produce_gradient(const GradientTask& task, const GradientOrigin& origin, const CUtensorMap& x,
                                 const CUtensorMap& y, char* ring, GradientShared<Tile>& shared) {
  const auto boxes_of = [](int first, int size, int most) { return min(most, ((size - first) * Tile::j + 63) / 64); };
  const int y_boxes = boxes_of(origin.r, task.b, Tile::y_boxes), x_boxes = boxes_of(origin.c, task.c, Tile::x_boxes);
  const int bytes = Tile::wide ? Tile::stage_bytes : (y_boxes + x_boxes) * Tile::box_bytes;
  Ring<Tile::stages> at;
  for (int step = first_step(task, origin.part); step < first_step(task, origin.part + 1); ++step, at.advance()) {
    Barrier& full = shared.full[at.slot];
    char* stage = ring + at.slot * Tile::stage_bytes;
    shared.empty[at.slot].wait(at.phase ^ 1);
    full.arrive_expecting(bytes);
    const auto fetch = [&](const CUtensorMap& map, char* to, int first, int boxes) {
      if constexpr (Tile::wide) {
        load(to, map, full, Keep::normal, origin.j, step * Tile::n, first, origin.i);
      } else {
        for (int box = 0; box < boxes; ++box)
          load(to + box * Tile::box_bytes, map, full, Keep::normal, first * Tile::j + box * 64, step * Tile::n,
               origin.i);
      }
    };
    fetch(y, stage, origin.r, y_boxes);
    fetch(x, stage + Tile::y_bytes, origin.c, x_boxes);
  }
}

// The same number, of which the compiler does not know that it is.
__device__ inline int anew(int number) {
  asm volatile("" : "+r"(number));
  return number;
}

// To ∂W, or to the sums of the block's part. Where that is becomes known here, so that it needs no registers before.
template <class T, class Tile>
__device__ inline void store_gradient(const GradientTask& task, const GradientSums<Tile>& sums) {
  const int thread = anew(threadIdx.x);
  const GradientLane<Tile> lane(thread / 32, thread % 32);
  const GradientOrigin origin = gradient_origin<Tile>(task, anew(blockIdx.x));
#pragma unroll
  for (int number = 0; number < Tile::vectors; ++number) {
    const GradientVector<Tile> own(lane, number);
    const int64_t place = gradient_place<Tile>(task, origin, own);
    if (place < 0) continue;
    float values[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) values[e] = sum_of<Tile>(sums, own, e);
    if (task.parts == nullptr) {
      store_vector<T>(task.gradient + place, values);
    } else {
      const int64_t vector = (static_cast<int64_t>(blockIdx.x) * Tile::vectors + number) * Tile::consumers + thread;
      float4* to = reinterpret_cast<float4*>(task.parts + vector * 8);
      to[0] = make_float4(values[0], values[1], values[2], values[3]);
      to[1] = make_float4(values[4], values[5], values[6], values[7]);
    }
  }
}

template <class T, class Tile>
__device__ void consume_gradient(const GradientTask& task, int part, uint32_t ring, GradientShared<Tile>& shared,
                                 int thread) {
  const GradientLane<Tile> lane(thread / 32, thread % 32);
  GradientSums<Tile> sums = {};
  Ring<Tile::stages> at;
  for (int left = first_step(task, part + 1) - first_step(task, part); left > 0; --left, at.advance()) {
    shared.full[at.slot].wait(at.phase);
#pragma unroll 1
    for (int rows = 0; rows < Tile::n; rows += 16)
      multiply_rows<Tile>(
          sums, lane, ring + at.slot * Tile::stage_bytes + rows * Tile::row_bytes, load_own,
          [](float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) { multiply_add<T>(sum, a, b0, b1); });
    __syncwarp();
    if (thread % 32 == 0) shared.empty[at.slot].arrive();
  }
  store_gradient<T, Tile>(task, sums);
}

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::threads, 1)
    gradient_kernel(const GradientTask task, const __grid_constant__ CUtensorMap x,
                    const __grid_constant__ CUtensorMap y) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int registers = 240, helper_registers = 24;
  static_assert(registers_suffice<Tile::consumers, registers, 128, helper_registers>);
  extern __shared__ char dynamic[];
  __shared__ GradientShared<Tile> shared;
  char* ring = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < Tile::stages; ++slot) shared.full[slot].init(1), shared.empty[slot].init(Tile::warps);
    publish_barriers();
    prefetch_map(x), prefetch_map(y);
  }
  __syncthreads();
  wait_for_kernels_before();
  const GradientOrigin origin = gradient_origin<Tile>(task, blockIdx.x);
  if (warpgroup_of_block() == Tile::consumers / 128) {
    shrink_registers<helper_registers>();
    if (threadIdx.x == Tile::consumers) produce_gradient<Tile>(task, origin, x, y, ring, shared);
  } else {
    grow_registers<registers>();
    consume_gradient<T, Tile>(task, origin.part, shared_address(ring), shared, threadIdx.x);
  }
#endif
}

}  // namespace ksmm::hopper
