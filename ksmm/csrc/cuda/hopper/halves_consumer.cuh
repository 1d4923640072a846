// The warpgroups that multiply by W as halves: each number the sum of two of float16, three products for one.
//
//   x s = x0 + x1 2^-11,  w u = w0 + w1 2^-11:  x w = (x0 w0 + (x0 w1 + x1 w0) 2^-11) / (s u) + less than 2^-23 of it
//
// s is a power of two for each row of X and FRESH of c, so that the largest of them is between 2^14 and 2^15, and u one
// for each row of W. Two of float16 have 23 bits, one fewer than float32, and where a few products make up a sum, it
// has up to 2.2 times the error of strict float32 (docs/float32.md, "Halves"). Of numbers a 2^-26th of the largest and
// below fewer bits are left. So rows of X and W whose sizes add up to less than fewest_numbers times the largest of
// them are left to the kernel that multiplies three parts, and rows of W with more than a few numbers next to zero, too
// (see halves_weight.cuh).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "copy.cuh"
#include "tf32_fragments.cuh"

namespace ksmm::hopper {

constexpr float of_second_half = 1.0f / 2048;

// How many times the largest of c numbers their sizes have to add up to.
__device__ inline float fewest_numbers(int c) { return fmaxf(4, static_cast<float>(c) / 32); }

// The power of two by which numbers up to `largest` come to lie between 2^14 and 2^15, as far as it is one of float32;
// those of infinities and NaN do not matter.
__device__ inline float scale_for(float largest) {
  const uint32_t exponent = __float_as_uint(largest) & 0x7f800000u;
  return __uint_as_float(min((127u + 14 + 127 << 23) - exponent, 253u << 23));
}
__device__ inline float inverse_of_scale(float scale) {  // exactly
  return __uint_as_float((254u << 23) - __float_as_uint(scale));
}

// Two numbers, times the scale, as sums of two of float16 each, the second of which counts of_second_half.
__device__ inline void split_halves(float low, float high, float scale, uint32_t& first, uint32_t& second) {
  low *= scale, high *= scale;
  const __half2 rounded = __floats2half2_rn(low, high);
  const float2 taken = __half22float2(rounded);
  const __half2 rest = __floats2half2_rn((low - taken.x) / of_second_half, (high - taken.y) / of_second_half);
  first = reinterpret_cast<const uint32_t&>(rounded), second = reinterpret_cast<const uint32_t&>(rest);
}

// As Tf32Consumer: a step multiplies FRESH of c of one unit, in two groups of instructions, the corrections and then
// the main products, which are added up in float32.
template <class Tile>
struct HalvesConsumer {
  static constexpr int parts = Tile::fresh / 16, main = Tile::buffers - 1;
  // Whether X is split while the products before run, where registers allow.
  static constexpr bool ahead =
      Tile::steps % 2 == 0 &&
      Tile::units * Tile::unit_sums + Tile::buffers * Tile::unit_sums + 16 * parts + 8 * parts * Tile::pack <= 200;
  // The corrections, which alone read `second`, may be done by then.
  static constexpr int sets = ahead ? 2 : 1, seconds = ahead && Tile::buffers == 2 ? 2 : 1;
  float sums[Tile::units][Tile::unit_sums];
  float fresh[Tile::buffers][Tile::unit_sums];  // of the corrections, of the main products
  uint32_t first[sets][parts][4], second[seconds][parts][4];
  float scales[sets][2];                   // what the sums of rows g and g + 8 are to be multiplied by
  float values[2 * parts][4][Tile::pack];  // of 8 of c each
  // Of rows g and g + 8 of X, as exact as is needed: the sum of the largest of each four numbers that this lane has,
  // and the largest of all.
  __nv_bfloat162 total[Tile::units], most[Tile::units];
  int warpgroup, warp, lane;

  __device__ void clear() {
#pragma unroll
    for (int unit = 0; unit < Tile::units; ++unit)
#pragma unroll
      for (int n = 0; n < Tile::unit_sums; ++n) sums[unit][n] = 0;
#pragma unroll
    for (int unit = 0; unit < Tile::units; ++unit) total[unit] = most[unit] = __float2bfloat162_rn(0);
#pragma unroll
    for (int n = 0; n < Tile::unit_sums; ++n) fresh[0][n] = fresh[main][n] = 0;
    scales[sets - 1][0] = scales[sets - 1][1] = 0;
  }

  __device__ void fence_parts(uint32_t (&of_x)[parts][4]) {
#pragma unroll
    for (int element = 0; element < parts * 4; ++element) fence_register(of_x[element / 4][element % 4]);
  }

  __device__ void split(int set, int unit) {
    const int index = unit % Tile::pack;
    float largest[2] = {0, 0}, sum[2] = {0, 0};
#pragma unroll
    for (int part = 0; part < parts; ++part)
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const auto size = [&](int k) { return fabsf(values[2 * part + k / 2][k % 2 * 2 + row][index]); };
        const float of_four = fmaxf(fmaxf(size(0), size(1)), fmaxf(size(2), size(3)));
        largest[row] = fmaxf(largest[row], of_four), sum[row] += of_four;
      }
    total[unit] = __hadd2(total[unit], __floats2bfloat162_rn(sum[0], sum[1]));
    float scale[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      largest[row] = fmaxf(largest[row], __shfl_xor_sync(~0u, largest[row], 1));
      largest[row] = fmaxf(largest[row], __shfl_xor_sync(~0u, largest[row], 2));
      scale[row] = scale_for(largest[row]);
      scales[set][row] = inverse_of_scale(scale[row]);
    }
    most[unit] = __hmax2(most[unit], __floats2bfloat162_rn(largest[0], largest[1]));
#pragma unroll
    for (int part = 0; part < parts; ++part)
#pragma unroll
      for (int element = 0; element < 4; ++element) {
        const auto& of_k = values[2 * part + element / 2];
        split_halves(of_k[element % 2][index], of_k[element % 2 + 2][index], scale[element % 2],
                     first[set][part][element], second[set % seconds][part][element]);
      }
    fence_parts(first[set]), fence_parts(second[set % seconds]);
  }

  __device__ void multiply_corrections(int set, uint64_t weight) {
    using Instruction = Products<float16, Tile::rows>;
    constexpr int next = Tile::part_bytes / 16;
    begin_products();
#pragma unroll
    for (int part = 0; part < parts; ++part) {  // 16 of c are 32 bytes, in units of 16
      Instruction::from_registers(fresh[0], second[set % seconds][part], weight + 2 * part, part > 0);
      Instruction::from_registers(fresh[0], first[set][part], weight + 2 * part + next, true);
    }
    commit_products();
  }

  __device__ void multiply_main(int set, uint64_t weight) {
    begin_products();
#pragma unroll
    for (int part = 0; part < parts; ++part)
      Products<float16, Tile::rows>::from_registers(fresh[main], first[set][part], weight + 2 * part, part > 0);
    commit_products();
  }

  // Once products are done, and before the next ones overwrite their sums. With two sets of fresh sums they are added
  // to each other first.
  __device__ void add_up(int unit, const float (&scale)[2], bool of_corrections) {
#pragma unroll
    for (int kind = 0; kind < Tile::buffers; ++kind)
#pragma unroll
      for (int n = 0; n < Tile::unit_sums; ++n) fence_register(fresh[kind][n]);
    const float factor[2] = {of_corrections ? scale[0] * of_second_half : scale[0],
                             of_corrections ? scale[1] * of_second_half : scale[1]};
#pragma unroll
    for (int n = 0; n < Tile::unit_sums; ++n) {
      const float sum = Tile::buffers == 2 ? fmaf(fresh[0][n], of_second_half, fresh[main][n]) : fresh[0][n];
      sums[unit][n] = fmaf(sum, factor[n / 2 % 2], sums[unit][n]);
      fence_register(sums[unit][n]);
    }
  }

  __device__ void multiply_step(int step, int unit, int unit_before, uint64_t weight) {
    const int set = ahead ? step % 2 : 0, set_before = ahead ? set ^ 1 : 0;
    if constexpr (ahead) split(set, unit);
    wait_for_products<0>();
    fence_parts(first[set_before]), fence_parts(second[set_before % seconds]);
    add_up(unit_before, scales[set_before], false);
    if constexpr (!ahead) split(set, unit);
    multiply_corrections(set, weight);
    if constexpr (Tile::buffers == 1) {
      wait_for_products<0>();
      fence_parts(second[set % seconds]);
      add_up(unit, scales[set], true);
    }
    multiply_main(set, weight);
  }

  // As Tf32Consumer::stage.
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
      multiply_step(step, unit, unit_before, here);
      if (step == 0 && before != nullptr && (lane == 0 || Tile::givers == consumer_threads)) {
        // Y of the tile before may still leave from there
        if (Tile::keeps_stage && lane == 0) wait_for_store_reads<0>();
        before->arrive();
      }
    }
  }

  // Whether a few numbers make up a row of X, or it holds NaN. All lanes of the warp call it.
  __device__ bool any_dominated(int c) const {
    const float fewest = fewest_numbers(c);
    bool found = false;
#pragma unroll
    for (int unit = 0; unit < Tile::units; ++unit) {
      float2 sum = __bfloat1622float2(total[unit]);
      const float2 largest = __bfloat1622float2(most[unit]);
      sum.x += __shfl_xor_sync(~0u, sum.x, 1), sum.x += __shfl_xor_sync(~0u, sum.x, 2);
      sum.y += __shfl_xor_sync(~0u, sum.y, 1), sum.y += __shfl_xor_sync(~0u, sum.y, 2);
      found |= !(sum.x >= fewest * largest.x) || !(sum.y >= fewest * largest.y);
    }
    return found;
  }

  __device__ void drain(Barrier* before) {
    wait_for_products<0>();
    fence_parts(first[sets - 1]), fence_parts(second[(sets - 1) % seconds]);
    add_up(Tile::units - 1, scales[sets - 1], false);
    if (before != nullptr && lane == 0) before->arrive();
  }
};

}  // namespace ksmm::hopper
