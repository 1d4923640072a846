// Float32 products on the matrix units of compute capability 9.0, each number as the sum of two of TF32.
//
//   x w = (x' + x'')(w' + w'') = x' w' + x' w'' + x'' w' + less than one rounding error of float32
//
// Persistent blocks of three warpgroups: one whose first thread copies boxes of X and W to a ring of stages and whose
// other warps split W into its two parts there, and two that multiply. Those read X into registers, where it is split,
// in whatever layout it has: neither layout needs a transposition. The matrix units truncate what they add up, so they
// add up FRESH of c only, and float32 additions do the rest: that makes the error smaller than that of strict float32.
#pragma once

#include "copy.cuh"
#include "tf32_epilogue.cuh"

namespace ksmm::hopper {

template <class Tile>
struct Tf32Shared {
  Barrier full[Tile::stages], split[Tile::stages], empty[Tile::stages];
};

struct Tf32Position {
  int i, plane_tile, batch_tile, row_tile;
};

// Neighbouring tiles differ in r, so that blocks that run together read the same X.
__device__ inline Tf32Position position_of(const Tf32Task& task, int tile) {
  Tf32Position at;
  at.row_tile = tile % task.row_tiles, tile /= task.row_tiles;
  at.batch_tile = tile % task.batch_tiles, tile /= task.batch_tiles;
  at.plane_tile = tile % task.plane_tiles, at.i = tile / task.plane_tiles;
  return at;
}

template <class Tile>
__device__ inline void copy_stage(const Tf32Task& task, const Tf32Position& at, int k, char* stage, Barrier& full) {
  const int n = at.batch_tile * Tile::batch, j = at.plane_tile * Tile::planes;
  if constexpr (Tile::access == Access::rows) {
    for (int box = 0; box < Tile::batch / 32; ++box)
      load(stage + box * (Tile::k * 128), task.x, full, Keep::normal, n + box * 32, j, k, at.i);
  } else {
    for (int box = 0; box < Tile::planes * Tile::k / 32; ++box) {
      char* const to = stage + box * (Tile::batch * 128);
      if constexpr (Tile::access == Access::runs)
        load(to, task.x, full, Keep::normal, k * Tile::planes + box * 32, at.i, n);
      else
        load(to, task.x, full, Keep::normal, j, k + box * 4, at.i, n);
    }
  }
  load(stage + Tile::x_bytes, task.weight, full, Keep::last_out, k, at.row_tile * Tile::rows, j, at.i);
}

template <class Tile>
__device__ inline void produce(const Tf32Task& task, char* stages, Tf32Shared<Tile>& shared) {
  Ring<Tile::stages> ring;
  for (int tile = blockIdx.x; tile < task.tiles; tile += gridDim.x) {
    const Tf32Position at = position_of(task, tile);
    for (int k = 0; k < task.c; k += Tile::k, ring.advance()) {
      shared.empty[ring.slot].wait(ring.phase ^ 1);
      shared.full[ring.slot].arrive_expecting(Tile::x_bytes + Tile::weight_bytes);
      copy_stage<Tile>(task, at, k, stages + ring.slot * Tile::stage_bytes, shared.full[ring.slot]);
    }
  }
}

// Rounds W where it lies, and writes the rest beside it.
template <class Tile>
__device__ inline void split_weight(const Tf32Task& task, char* stages, Tf32Shared<Tile>& shared, int thread) {
  Ring<Tile::stages> ring;
  for (int tile = blockIdx.x; tile < task.tiles; tile += gridDim.x) {
    for (int k = 0; k < task.c; k += Tile::k, ring.advance()) {
      float4* const weight = reinterpret_cast<float4*>(stages + ring.slot * Tile::stage_bytes + Tile::x_bytes);
      constexpr int count = Tile::weight_bytes / 16;
      shared.full[ring.slot].wait(ring.phase);
#pragma unroll 4
      for (int index = thread; index < count; index += splitter_threads) {
        const float4 value = weight[index];
        const uint4 high = {high_part(value.x), high_part(value.y), high_part(value.z), high_part(value.w)};
        reinterpret_cast<uint4*>(weight)[index] = high;
        if constexpr (Tile::compensated)
          reinterpret_cast<uint4*>(weight)[index + count] = {low_part(value.x, high.x), low_part(value.y, high.y),
                                                             low_part(value.z, high.z), low_part(value.w, high.w)};
      }
      fence_for_engines();
      shared.split[ring.slot].arrive();
    }
  }
}

// What a warpgroup that multiplies keeps in registers, and its steps.
template <class Tile>
struct Tf32Consumer {
  static constexpr int parts = Tile::fresh / 8;
  float sums[Tile::units][Tile::unit_sums];
  float fresh[Tile::buffers][Tile::unit_sums];
  uint32_t high[Tile::buffers][parts][4], low[Tile::buffers][parts][4];
  float values[parts][4][Tile::pack];
  int warpgroup, warp, lane;

  __device__ void clear() {
#pragma unroll
    for (int unit = 0; unit < Tile::units; ++unit)
#pragma unroll
      for (int n = 0; n < Tile::unit_sums; ++n) sums[unit][n] = 0;
#pragma unroll
    for (int n = 0; n < Tile::unit_sums; ++n) fresh[Tile::buffers - 1][n] = 0;
  }

  __device__ void split(int buffer, int index) {
#pragma unroll
    for (int part = 0; part < parts; ++part)
#pragma unroll
      for (int element = 0; element < 4; ++element) {
        const float value = values[part][element][index];
        high[buffer][part][element] = high_part(value);
        if constexpr (Tile::compensated) low[buffer][part][element] = low_part(value, high[buffer][part][element]);
      }
  }

  // The smaller products first: they are truncated to what the sum has by then.
  __device__ void multiply(int buffer, float (&into)[Tile::unit_sums], uint64_t weight_high, uint64_t weight_low,
                           bool accumulate) {
    using Instruction = Products<tf32, Tile::warpgroup_rows>;
#pragma unroll
    for (int element = 0; element < parts * 4; ++element) {
      fence_register(high[buffer][element / 4][element % 4]);
      if constexpr (Tile::compensated) fence_register(low[buffer][element / 4][element % 4]);
    }
    begin_products();
#pragma unroll
    for (int part = 0; part < parts; ++part) {  // 8 of c are 32 bytes, in units of 16
      if constexpr (Tile::compensated) {
        Instruction::from_registers(into, low[buffer][part], weight_high + 2 * part, accumulate || part > 0);
        Instruction::from_registers(into, high[buffer][part], weight_low + 2 * part, true);
      }
      Instruction::from_registers(into, high[buffer][part], weight_high + 2 * part,
                                  Tile::compensated || accumulate || part > 0);
    }
    commit_products();
  }

  // The products of a step are done.
  __device__ void fence_step(int buffer) {
#pragma unroll
    for (int n = 0; n < Tile::unit_sums; ++n) fence_register(fresh[buffer][n]);
#pragma unroll
    for (int element = 0; element < parts * 4; ++element) {
      fence_register(high[buffer][element / 4][element % 4]);
      fence_register(low[buffer][element / 4][element % 4]);
    }
  }

  __device__ void add_up(int buffer, int unit) {
#pragma unroll
    for (int n = 0; n < Tile::unit_sums; ++n) {
      sums[unit][n] += fresh[buffer][n];
      fence_register(sums[unit][n]);  // not later: the next products overwrite the fresh sums
    }
  }

  // Multiplies what a stage holds. The last step of the stage before is unfinished at the start: `before` is where it
  // read from, null if there is none.
  __device__ void stage(uint32_t x, uint64_t weight_high, uint64_t weight_low, Barrier* before) {
    const int warpgroup_n = Tile::split_b ? 0 : warpgroup * Tile::warpgroup_batch;
#pragma unroll
    for (int step = 0; step < Tile::steps; ++step) {
      const int unit = step % Tile::units, k0 = step / Tile::units * Tile::fresh, buffer = step % Tile::buffers;
      const int unit_before = (step + Tile::units - 1) % Tile::units, buffer_before = (step + 1) % Tile::buffers;
      if (unit % Tile::pack == 0)
#pragma unroll
        for (int part = 0; part < parts; ++part)
          read_pack<Tile>(values[part], x, unit, k0 + 8 * part, warpgroup_n, warp, lane);
      const int plane = Tile::access == Access::rows ? 0 : unit % Tile::planes;
      const uint32_t offset = (plane * Tile::rows * Tile::k * 4 + k0 * 4) / 16;
      if constexpr (!Tile::compensated) {
        wait_for_products<0>();
        split(0, unit % Tile::pack);
        multiply(0, sums[unit], weight_high + offset, 0, true);
      } else if constexpr (Tile::buffers == 2) {
        split(buffer, unit % Tile::pack);
        wait_for_products<0>();
        fence_step(buffer_before);
        multiply(buffer, fresh[buffer], weight_high + offset, weight_low + offset, false);
        add_up(buffer_before, unit_before);
      } else {
        // the parts of X are still being read
        wait_for_products<0>();
        fence_step(0);
        add_up(0, unit_before);
        split(0, unit % Tile::pack);
        multiply(0, fresh[0], weight_high + offset, weight_low + offset, false);
      }
      if (step == 0 && before != nullptr && lane == 0) before->arrive();
    }
  }

  __device__ void drain(Barrier& before) {
    wait_for_products<0>();
    if constexpr (Tile::compensated) {
      fence_step((Tile::steps - 1) % Tile::buffers);
      add_up((Tile::steps - 1) % Tile::buffers, Tile::units - 1);
    } else {
#pragma unroll
      for (int unit = 0; unit < Tile::units; ++unit)
#pragma unroll
        for (int n = 0; n < Tile::unit_sums; ++n) fence_register(sums[unit][n]);
    }
    if (lane == 0) before.arrive();
  }
};

template <class Tile>
__device__ inline void consume(const Tf32Task& task, char* stages, Tf32Shared<Tile>& shared, int thread) {
  Tf32Consumer<Tile> consumer;
  consumer.warpgroup = thread / 128, consumer.warp = thread / 32 % 4, consumer.lane = thread % 32;
  const int r_offset = Tile::split_b ? consumer.warpgroup * Tile::warpgroup_rows : 0;
  Ring<Tile::stages> ring;
  for (int tile = blockIdx.x; tile < task.tiles; tile += gridDim.x) {
    const Tf32Position at = position_of(task, tile);
    Barrier* before = nullptr;
    consumer.clear();
    for (int k = 0; k < task.c; k += Tile::k, ring.advance()) {
      const uint32_t x = shared_address(stages + ring.slot * Tile::stage_bytes);
      const uint32_t weight = x + Tile::x_bytes + r_offset * Tile::k * 4;
      const uint64_t high = describe(weight, Tile::swizzle, 8 * Tile::k * 4);
      const uint64_t low = describe(weight + Tile::weight_bytes, Tile::swizzle, 8 * Tile::k * 4);
      shared.full[ring.slot].wait(ring.phase);
      shared.split[ring.slot].wait(ring.phase);
      consumer.stage(x, high, low, before);
      before = &shared.empty[ring.slot];
    }
    consumer.drain(*before);
    const Tf32Place place = {at.i, at.row_tile * Tile::rows + r_offset, at.plane_tile * Tile::planes,
                             static_cast<int64_t>(at.batch_tile) * Tile::batch +
                                 (Tile::split_b ? 0 : consumer.warpgroup * Tile::warpgroup_batch)};
    if constexpr (Tile::access == Access::rows)
      store_batch_last<Tile>(task, consumer.sums, place, consumer.warp, consumer.lane);
    else
      store_batch_first<Tile>(task, consumer.sums, place, consumer.warp, consumer.lane);
  }
}

template <class Tile>
__global__ void __launch_bounds__(tf32_threads, 1) multiply_tf32(const __grid_constant__ Tf32Task task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char memory[];
  char* const stages = memory + (1024 - shared_address(memory) % 1024) % 1024;
  auto& shared = *reinterpret_cast<Tf32Shared<Tile>*>(stages + Tile::stages * Tile::stage_bytes);
  const int thread = threadIdx.x;
  if (thread == 0) {
    for (int slot = 0; slot < Tile::stages; ++slot) {
      shared.full[slot].init(1);
      shared.split[slot].init(splitter_threads);
      shared.empty[slot].init(consumer_threads / 32);
    }
    publish_barriers();
    prefetch_map(task.x);
    prefetch_map(task.weight);
  }
  __syncthreads();
  if (thread < producer_threads) {
    shrink_registers<40>();
    if (thread == 0) produce<Tile>(task, stages, shared);
    if (thread >= 32) split_weight<Tile>(task, stages, shared, thread - 32);
  } else {
    grow_registers<232>();
    consume<Tile>(task, stages, shared, thread - producer_threads);
  }
#endif
}

}  // namespace ksmm::hopper
