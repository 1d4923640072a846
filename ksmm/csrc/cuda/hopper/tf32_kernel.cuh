// Float32 products on the matrix units of compute capability 9.0: rounded to TF32, or compensated, with each number as
// the exact sum of three of bfloat16, which take half the time of TF32:
//
//   x w = (x0 + x1 + x2) (w0 + w1 + w2) = x0 w0 + (x0 w1 + x1 w0) + (x1 w1 + x0 w2 + x2 w0) + less than 2^-25 of it
//
// Two of TF32 and three products would take as long, but have 23 bits, one fewer than float32: sums that one product
// dominates then have twice the error of strict float32.
//
// Persistent blocks of three warpgroups: one whose first thread copies boxes of X and W to a ring of stages and whose
// other warps split W there, and two that multiply. Those read X into registers, where it is split, in whatever layout
// it has: neither layout needs a transposition. The matrix units truncate what they add up, so they add up FRESH of c
// only, and the main products apart from the corrections; float32 additions do the rest.
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

// The place of a 16-byte chunk in rows of ROW_BYTES swizzled over themselves.
template <int ROW_BYTES>
__device__ inline int swizzled(int offset) {
  return offset ^ ((offset >> 7) & (ROW_BYTES / 16 - 1)) << 4;
}

// Rounds 4 numbers of W where they lie.
__device__ inline void round_chunk(char* weight, int chunk) {
  const float4 value = reinterpret_cast<float4*>(weight)[chunk];
  reinterpret_cast<uint4*>(weight)[chunk] = {rounded(value.x), rounded(value.y), rounded(value.z), rounded(value.w)};
}

// Writes the three parts of 8 numbers of W. k and k + 4 become neighbours: so they are in the registers that hold X.
template <class Tile>
__device__ inline void split_chunk(char* weight, int chunk) {
  const float4 low = *reinterpret_cast<const float4*>(weight + swizzled<Tile::k * 4>(chunk * 32));
  const float4 high = *reinterpret_cast<const float4*>(weight + swizzled<Tile::k * 4>(chunk * 32 + 16));
  uint4 first, second, third;
  split_pair(low.x, high.x, first.x, second.x, third.x);
  split_pair(low.y, high.y, first.y, second.y, third.y);
  split_pair(low.z, high.z, first.z, second.z, third.z);
  split_pair(low.w, high.w, first.w, second.w, third.w);
  char* const to = weight + Tile::weight_bytes + swizzled<Tile::row_bytes>(chunk * 16);
  *reinterpret_cast<uint4*>(to) = first;
  *reinterpret_cast<uint4*>(to + Tile::part_bytes) = second;
  *reinterpret_cast<uint4*>(to + 2 * Tile::part_bytes) = third;
}

template <class Tile>
__device__ inline void split_weight(const Tf32Task& task, char* stages, Tf32Shared<Tile>& shared, int thread) {
  Ring<Tile::stages> ring;
  constexpr int chunks = Tile::weight_bytes / (Tile::compensated ? 32 : 16);
  for (int tile = blockIdx.x; tile < task.tiles; tile += gridDim.x) {
    for (int k = 0; k < task.c; k += Tile::k, ring.advance()) {
      char* const weight = stages + ring.slot * Tile::stage_bytes + Tile::x_bytes;
      shared.full[ring.slot].wait(ring.phase);
      for (int chunk = thread; chunk < chunks; chunk += splitter_threads) {
        if constexpr (Tile::compensated)
          split_chunk<Tile>(weight, chunk);
        else
          round_chunk(weight, chunk);
      }
      fence_for_engines();
      shared.split[ring.slot].arrive();
    }
  }
}

// What a warpgroup that multiplies keeps in registers, and its steps. A step multiplies FRESH of c of one unit, in two
// groups of instructions: the corrections, then the main products (x0 w0), whose sum has few bits to truncate. Each
// group starts from zero and is then added in float32.
template <class Tile>
struct Tf32Consumer {
  static constexpr int parts = Tile::fresh / 16, main = Tile::buffers - 1;
  float sums[Tile::units][Tile::unit_sums];
  float fresh[Tile::buffers][Tile::unit_sums];  // of the corrections, of the main products
  uint32_t first[Tile::buffers][parts][4], second[Tile::buffers][parts][4], third[Tile::buffers][parts][4];
  float values[2 * parts][4][Tile::pack];  // of 8 of c each
  int warpgroup, warp, lane;

  __device__ void clear() {
#pragma unroll
    for (int unit = 0; unit < Tile::units; ++unit)
#pragma unroll
      for (int n = 0; n < Tile::unit_sums; ++n) sums[unit][n] = 0;
#pragma unroll
    for (int n = 0; n < Tile::unit_sums; ++n) fresh[0][n] = fresh[main][n] = 0;
  }

  __device__ void split(int buffer, int index) {
#pragma unroll
    for (int part = 0; part < parts; ++part)
#pragma unroll
      for (int element = 0; element < 4; ++element) {
        const auto& of_k = values[2 * part + element / 2];
        split_pair(of_k[element % 2][index], of_k[element % 2 + 2][index], first[buffer][part][element],
                   second[buffer][part][element], third[buffer][part][element]);
      }
  }

  __device__ void fence_parts(uint32_t (&of_x)[parts][4]) {
#pragma unroll
    for (int element = 0; element < parts * 4; ++element) fence_register(of_x[element / 4][element % 4]);
  }

  // The smallest first.
  __device__ void multiply_corrections(int buffer, uint64_t weight) {
    using Instruction = Products<bfloat16, Tile::warpgroup_rows>;
    constexpr int next = Tile::part_bytes / 16;
    fence_parts(first[buffer]), fence_parts(second[buffer]), fence_parts(third[buffer]);
    begin_products();
#pragma unroll
    for (int part = 0; part < parts; ++part) {  // 16 of c are 32 bytes, in units of 16
      const uint64_t first_weight = weight + 2 * part;
      Instruction::from_registers(fresh[0], third[buffer][part], first_weight, part > 0);
      Instruction::from_registers(fresh[0], first[buffer][part], first_weight + 2 * next, true);
      Instruction::from_registers(fresh[0], second[buffer][part], first_weight + next, true);
      Instruction::from_registers(fresh[0], second[buffer][part], first_weight, true);
      Instruction::from_registers(fresh[0], first[buffer][part], first_weight + next, true);
    }
    commit_products();
  }

  __device__ void multiply_main(int buffer, uint64_t weight) {
    fence_parts(first[buffer]);
    begin_products();
#pragma unroll
    for (int part = 0; part < parts; ++part)
      Products<bfloat16, Tile::warpgroup_rows>::from_registers(fresh[main], first[buffer][part], weight + 2 * part,
                                                               part > 0);
    commit_products();
  }

  // Once products are done, and before the next ones overwrite their sums.
  __device__ void add_up(int unit) {
#pragma unroll
    for (int set = 0; set < Tile::buffers; ++set)
#pragma unroll
      for (int n = 0; n < Tile::unit_sums; ++n) fence_register(fresh[set][n]);
#pragma unroll
    for (int n = 0; n < Tile::unit_sums; ++n) {
      sums[unit][n] += Tile::buffers == 2 ? fresh[0][n] + fresh[main][n] : fresh[0][n];
      fence_register(sums[unit][n]);
    }
  }

  // With two sets of fresh sums they are added to each other first: that rounds less where one product dominates.
  __device__ void step_joined(int step, int unit, int unit_before, uint64_t weight) {
    const int buffer = step % 2;
    split(buffer, unit % Tile::pack);
    wait_for_products<0>();
    fence_parts(first[buffer ^ 1]), fence_parts(second[buffer ^ 1]), fence_parts(third[buffer ^ 1]);
    add_up(unit_before);
    multiply_corrections(buffer, weight);
    multiply_main(buffer, weight);
  }

  __device__ void step_alone(int unit, int unit_before, uint64_t weight) {
    wait_for_products<0>();
    fence_parts(first[0]);
    add_up(unit_before);
    split(0, unit % Tile::pack);
    multiply_corrections(0, weight);
    wait_for_products<0>();
    fence_parts(second[0]), fence_parts(third[0]);
    add_up(unit);
    multiply_main(0, weight);
  }

  // In TF32, right onto the sums.
  __device__ void step_plain(int unit, uint64_t weight) {
    uint32_t x[2 * parts][4];
#pragma unroll
    for (int element = 0; element < 8 * parts; ++element) {
      x[element / 4][element % 4] = rounded(values[element / 4][element % 4][unit % Tile::pack]);
      fence_register(x[element / 4][element % 4]);
    }
    begin_products();
#pragma unroll
    for (int part = 0; part < 2 * parts; ++part)
      Products<tf32, Tile::warpgroup_rows>::from_registers(sums[unit], x[part], weight + 2 * part, true);
    commit_products();
    wait_for_products<0>();
#pragma unroll
    for (int element = 0; element < 8 * parts; ++element) fence_register(x[element / 4][element % 4]);
  }

  // Multiplies what a stage holds. The last group of the stage before is unfinished at the start: `before` is where it
  // read from, null if there is none.
  __device__ void stage(uint32_t x, uint64_t weight, Barrier* before) {
    const int warpgroup_n = Tile::split_b ? 0 : warpgroup * Tile::warpgroup_batch;
#pragma unroll
    for (int step = 0; step < Tile::steps; ++step) {
      const int unit = step % Tile::units, unit_before = (step + Tile::units - 1) % Tile::units;
      const int k0 = step / Tile::units * Tile::fresh;
      if (unit % Tile::pack == 0)
#pragma unroll
        for (int part = 0; part < 2 * parts; ++part)
          read_pack<Tile>(values[part], x, unit, k0 + 8 * part, warpgroup_n, warp, lane);
      const int plane = Tile::access == Access::rows ? 0 : unit % Tile::planes;
      const uint64_t here = weight + plane * Tile::rows * Tile::row_bytes / 16 + k0 * (Tile::row_bytes / Tile::k) / 16;
      if constexpr (!Tile::compensated)
        step_plain(unit, here);
      else if constexpr (Tile::buffers == 2)
        step_joined(step, unit, unit_before, here);
      else
        step_alone(unit, unit_before, here);
      if (step == 0 && before != nullptr && lane == 0) before->arrive();
    }
  }

  __device__ void drain(Barrier& before) {
    wait_for_products<0>();
    if constexpr (Tile::compensated) {
      fence_parts(first[main]);
      add_up(Tile::units - 1);
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
      const uint32_t rows =
          x + Tile::x_bytes + (Tile::compensated ? Tile::weight_bytes : 0) + r_offset * Tile::row_bytes;
      const uint64_t weight = describe(rows, Tile::swizzle, 8 * Tile::row_bytes);
      shared.full[ring.slot].wait(ring.phase);
      shared.split[ring.slot].wait(ring.phase);
      consumer.stage(x, weight, before);
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
