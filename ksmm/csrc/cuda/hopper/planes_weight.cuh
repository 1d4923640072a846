// What a thread does that writes W in the order of the stages of a tile of the planes kernel.
#pragma once

#include "planes_weight.h"

namespace ksmm::hopper {

struct PlanesWeightTask {
  const uint16_t* weight;
  int64_t i_stride, r_stride, k_stride, j_stride;
  bool whole_vectors;  // eight k from a multiple of eight on are one vector in W, too
  int b, c, d;
  int j, r, k;  // of a tile
  int tiles_j, tiles_r, steps;
  uint4* stages;
  int64_t vectors;  // of 16 bytes, in all stages
};

inline PlanesWeightTask planes_weight_task(const Problem& problem, const Operands& operands, const PlanesStages& shape,
                                           void* stages) {
  const int64_t* strides = operands.weight_strides;
  const bool aligned = reinterpret_cast<uintptr_t>(operands.weight) % 16 == 0 && strides[2] == 1 &&
                       strides[0] % 8 == 0 && strides[1] % 8 == 0 && strides[3] % 8 == 0;
  return {static_cast<const uint16_t*>(operands.weight),
          strides[0],
          strides[1],
          strides[2],
          strides[3],
          aligned,
          static_cast<int>(problem.b),
          static_cast<int>(problem.c),
          static_cast<int>(problem.d),
          shape.j,
          shape.r,
          shape.k,
          static_cast<int>(shape.tiles_j(problem)),
          static_cast<int>(shape.tiles_r),
          static_cast<int>(shape.steps(problem)),
          static_cast<uint4*>(stages),
          shape.bytes(problem) / 16};
}

// The eight numbers at vector `at` of the stages, which lie there as the copy engine would have put them: rows of 2 k
// bytes, their vectors exchanged by the swizzle of as many bytes.
__host__ __device__ inline uint4 planes_weight_vector(const PlanesWeightTask& task, int64_t at) {
  const int in_row = task.k / 8, in_stage = task.j * task.r * in_row;
  const int64_t stage = at / in_stage, tile = stage / task.steps, after_r = tile / task.tiles_r;
  const int place = static_cast<int>(at - stage * in_stage), row = place / in_row, plane = row / task.r;
  // bits 4 to 6 of an address, as many as a row has, change with bits 7 to 9
  const int vector = (place ^ (place >> 3 & (in_row - 1))) % in_row;
  const int64_t i = after_r / task.tiles_j;
  const int j = static_cast<int>(after_r - i * task.tiles_j) * task.j + plane;
  const int r = static_cast<int>(tile - after_r * task.tiles_r) * task.r + row - plane * task.r;
  const int k = static_cast<int>(stage - tile * task.steps) * task.k + vector * 8;
  if (j >= task.d || r >= task.b || k >= task.c) return {0, 0, 0, 0};
  const uint16_t* from = task.weight + i * task.i_stride + r * task.r_stride + j * task.j_stride + k * task.k_stride;
  if (task.whole_vectors && k + 8 <= task.c) return *reinterpret_cast<const uint4*>(from);
  uint32_t words[4] = {};
  for (int e = 0; e < 8; ++e)
    if (k + e < task.c) words[e / 2] |= static_cast<uint32_t>(from[e * task.k_stride]) << e % 2 * 16;
  return {words[0], words[1], words[2], words[3]};
}

}  // namespace ksmm::hopper
