// The warpgroups of the TF32 family that multiply: X into parts in registers, products in groups, sums in float32.
#pragma once

#include "copy.cuh"
#include "tf32_fragments.cuh"

namespace ksmm::hopper {

// What a warpgroup that multiplies keeps in registers, and its steps. A step multiplies FRESH of c of one unit, in two
// groups of instructions: the corrections, then the main products (x0 w0), whose sum has few bits to truncate. Each
// group starts from zero and is then added in float32.
template <class Tile>
struct Tf32Consumer {
  static constexpr int parts = Tile::fresh / 16, main = Tile::buffers - 1;
  float sums[Tile::units][Tile::unit_sums];
  float fresh[Tile::buffers][Tile::unit_sums];  // of the corrections, of the main products
  uint32_t first[Tile::eager ? 2 : Tile::buffers][parts][4], second[Tile::buffers][parts][4],
      third[Tile::buffers][parts][4];
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

  __device__ void fence_parts(uint32_t (&of_x)[parts][4]) {
#pragma unroll
    for (int element = 0; element < parts * 4; ++element) fence_register(of_x[element / 4][element % 4]);
  }

  // Eager: here and now. The compiler would do it after the next wait, where nothing else runs.
  __device__ void split(int buffer, int index) {
    const int rest = Tile::buffers == 2 ? buffer : 0;
#pragma unroll
    for (int part = 0; part < parts; ++part)
#pragma unroll
      for (int element = 0; element < 4; ++element) {
        const auto& of_k = values[2 * part + element / 2];
        split_pair(of_k[element % 2][index], of_k[element % 2 + 2][index], first[buffer][part][element],
                   second[rest][part][element], third[rest][part][element]);
      }
    if constexpr (Tile::eager) fence_parts(first[buffer]), fence_parts(second[rest]), fence_parts(third[rest]);
  }

  // The smallest first.
  __device__ void multiply_corrections(int buffer, uint64_t weight) {
    using Instruction = Products<bfloat16, Tile::rows>;
    constexpr int next = Tile::part_bytes / 16;
    const int rest = Tile::buffers == 2 ? buffer : 0;
    fence_parts(first[buffer]), fence_parts(second[rest]), fence_parts(third[rest]);
    begin_products();
#pragma unroll
    for (int part = 0; part < parts; ++part) {  // 16 of c are 32 bytes, in units of 16
      const uint64_t first_weight = weight + 2 * part;
      Instruction::from_registers(fresh[0], third[rest][part], first_weight, part > 0);
      Instruction::from_registers(fresh[0], first[buffer][part], first_weight + 2 * next, true);
      Instruction::from_registers(fresh[0], second[rest][part], first_weight + next, true);
      Instruction::from_registers(fresh[0], second[rest][part], first_weight, true);
      Instruction::from_registers(fresh[0], first[buffer][part], first_weight + next, true);
    }
    commit_products();
  }

  __device__ void multiply_main(int buffer, uint64_t weight) {
    fence_parts(first[buffer]);
    begin_products();
#pragma unroll
    for (int part = 0; part < parts; ++part)
      Products<bfloat16, Tile::rows>::from_registers(fresh[main], first[buffer][part], weight + 2 * part, part > 0);
    commit_products();
  }

  // Once products are done, and before the next ones overwrite their sums.
  __device__ void add_up(int unit) {
#pragma unroll
    for (int kind = 0; kind < Tile::buffers; ++kind)
#pragma unroll
      for (int n = 0; n < Tile::unit_sums; ++n) fence_register(fresh[kind][n]);
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

  // Eager: X is split while the main products before run, which read `first` alone.
  __device__ void step_alone(int step, int unit, int unit_before, uint64_t weight) {
    const int buffer = Tile::eager ? step % 2 : 0;
    if constexpr (Tile::eager) split(buffer, unit % Tile::pack);
    wait_for_products<0>();
    fence_parts(first[Tile::eager ? buffer ^ 1 : 0]);
    add_up(unit_before);
    if constexpr (!Tile::eager) split(buffer, unit % Tile::pack);
    multiply_corrections(buffer, weight);
    wait_for_products<0>();
    fence_parts(second[0]), fence_parts(third[0]);
    add_up(unit);
    multiply_main(buffer, weight);
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
      Products<tf32, Tile::rows>::from_registers(sums[unit], x[part], weight + 2 * part, true);
    commit_products();
    wait_for_products<0>();
#pragma unroll
    for (int element = 0; element < 8 * parts; ++element) fence_register(x[element / 4][element % 4]);
  }

  // Multiplies what a stage holds. The last group of the stage before is unfinished at the start: `before` is where it
  // read from, null if there is none.
  __device__ void stage(uint32_t x, uint64_t weight, Barrier* before) {
    const int first_n = Tile::split ? 0 : warpgroup * Tile::warpgroup_batch;
    const int first_plane = Tile::split ? warpgroup * Tile::warpgroup_planes : 0;
#pragma unroll
    for (int step = 0; step < Tile::steps; ++step) {
      const int unit = step % Tile::units, unit_before = (step + Tile::units - 1) % Tile::units;
      const int k0 = step / Tile::units * Tile::fresh;
      if (unit % Tile::pack == 0)
#pragma unroll
        for (int part = 0; part < 2 * parts; ++part)
          read_pack<Tile>(values[part], x, unit, k0 + 8 * part, first_n, first_plane, warp, lane);
      const int plane = Tile::in_batch_last ? 0 : unit % Tile::warpgroup_planes;
      const uint64_t here = weight + plane * Tile::rows * Tile::row_bytes / 16 + k0 * (Tile::row_bytes / Tile::k) / 16;
      if constexpr (!Tile::in_parts)
        step_plain(unit, here);
      else if constexpr (Tile::buffers == 2)
        step_joined(step, unit, unit_before, here);
      else
        step_alone(step, unit, unit_before, here);
      if (step == 0 && before != nullptr && (lane == 0 || Tile::givers == consumer_threads)) {
        // Y of the tile before may still leave from there
        if (Tile::keeps_stage && lane == 0) wait_for_store_reads<0>();
        before->arrive();
      }
    }
  }

  __device__ void drain(Barrier* before) {
    wait_for_products<0>();
    if constexpr (Tile::in_parts) {
      fence_parts(first[Tile::eager ? 1 : main]);
      add_up(Tile::units - 1);
    } else {
#pragma unroll
      for (int unit = 0; unit < Tile::units; ++unit)
#pragma unroll
        for (int n = 0; n < Tile::unit_sums; ++n) fence_register(sums[unit][n]);
    }
    if (before != nullptr && lane == 0) before->arrive();
  }
};

}  // namespace ksmm::hopper
