// Brings a step of X and W from device memory to shared memory, for the strict float32 kernel. Runs on host and device.
//
// Copies are asynchronous and go past the registers. Where device memory is contiguous along n or r, shared memory is
// too: 16 bytes a copy. Else (k, j) is what is contiguous, and is transposed on the way: 4 bytes a copy, 8 neighbours
// in device memory by 4 n or r for a warp, which are whole sectors there and different banks here.
#pragma once

#include "strict_tile.cuh"
#include "task.cuh"

namespace ksmm {

// `floats` (1 or 4) neighbours, or zeros where `valid` is false; `source` is a valid address even then.
template <int floats>
KSMM_BOTH void copy_floats(float* target, const uint32_t* source, bool valid) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(target));
  if constexpr (floats == 4)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(source) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(source), "r"(valid ? 4 : 0)
                 : "memory");
#else
  for (int index = 0; index < floats; ++index) target[index] = valid ? to_float<float>(read_only(source + index)) : 0.f;
#endif
}

KSMM_BOTH void commit_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most `pending` of this thread's committed groups are on their way.
template <int pending>
KSMM_BOTH void wait_for_groups() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}

// One operand of a step, ROWS x Tile::k x Tile::j; each plane of j is filled by `warps` warps, but for Along::features.
template <class Tile, int ROWS, int PITCH, int PLANE>
struct StrictCopy {
  static constexpr int J = Tile::j, warps = Tile::warps / J;

  // Vectors of 4 rows. whole_vectors: has_vectors along rows.
  KSMM_BOTH static void along_rows(float* shared, const uint32_t* origin, const Strides& strides, const Place& limits,
                                   bool whole_vectors, int thread) {
    constexpr int vectors = ROWS / 4 * Tile::k, at_once = 32 * warps;
    const int j = thread / 32 % J, first = thread / 32 / J * 32 + thread % 32;
    const int left = j < limits.j ? limits.row : 0;
    const uint32_t* plane = origin + j * strides.j;
    shared += j * PLANE;
    if (whole_vectors && left == ROWS && limits.column == Tile::k) {
#pragma unroll
      for (int vector = first; vector - first < vectors; vector += at_once) {
        if (vectors % at_once != 0 && vector >= vectors) return;
        const int row = vector % (ROWS / 4) * 4, column = vector / (ROWS / 4);
        copy_floats<4>(shared + column * PITCH + row, plane + column * strides.column + row, true);
      }
      return;
    }
#pragma unroll 1  // short code for the edges
    for (int vector = first; vector < vectors; vector += at_once) {
      const int row = vector % (ROWS / 4) * 4, column = vector / (ROWS / 4);
      const uint32_t* source = plane + column * strides.column + row;
      float* target = shared + column * PITCH + row;
      if (whole_vectors && row + 4 <= left && column < limits.column) {
        copy_floats<4>(target, source, true);
        continue;
      }
#pragma unroll 1
      for (int element = 0; element < 4; ++element) {
        const bool valid = row + element < left && column < limits.column;
        copy_floats<1>(target + element, valid ? source + element : origin, valid);
      }
    }
  }

  // ALONG: features, where neighbouring lanes follow (column, j), or columns, where they follow the column alone.
  template <Along ALONG>
  KSMM_BOTH static void by_element(float* shared, const uint32_t* origin, const Strides& strides, const Place& limits,
                                   int thread) {
    constexpr int step = 4 * warps;
    const int warp = thread / 32, eighth = thread % 8;
    const int feature = warp % J * 8 + eighth;
    const int column = ALONG == Along::features ? feature / J : eighth;
    const int j = ALONG == Along::features ? feature % J : warp % J;
    const int row = warp / J * 4 + thread % 32 / 8;
    const bool inside = column < limits.column && j < limits.j;
    const uint32_t* source = origin + row * strides.row + column * strides.column + j * strides.j;
    const int64_t stride = step * strides.row;
    float* target = shared + j * PLANE + column * PITCH + row;
    if (inside && row + ROWS - step < limits.row) {
#pragma unroll
      for (int start = 0; start < ROWS; start += step, source += stride) copy_floats<1>(target + start, source, true);
      return;
    }
#pragma unroll 1  // short code for the edges
    for (int start = 0; start < ROWS; start += step, source += stride) {
      const bool valid = inside && row + start < limits.row;
      copy_floats<1>(target + start, valid ? source : origin, valid);
    }
  }
};

}  // namespace ksmm
