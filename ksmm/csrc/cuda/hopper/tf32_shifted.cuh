// X and Y of float32 in batch_last whose rows begin anywhere, as multiples of 16 bytes and a shift of up to three
// numbers.
//
// The copy engine takes boxes that begin at a multiple of 16 bytes, of rows that are such multiples apart. Of rows of
// any stride every fourth is that far from the next, and all of these have the same shift. So X is a tensor (column, k
// / 4, long row, i): a long row has `x_period` rows, after which shifts repeat, and the rows k, k + 4, ... of a (i, j)
// are a range of its columns, which begins `shift` numbers behind the box. Y leaves by the threads.
#pragma once

#include "../matrix_unit.cuh"
#include "copy.cuh"
#include "tf32_epilogue.cuh"

namespace ksmm::hopper {

constexpr int shifted_classes = 4;  // of k, which have a box each

// How many numbers a class of rows is moved in its box, so that the lanes of a warp, which read rows of all classes,
// meet in different banks.
__host__ __device__ inline int moved(int class_of_rows) { return 8 * class_of_rows; }

// The numbers between X and the multiple of 16 bytes before it.
__host__ __device__ inline int shift_of(const float* x) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(x) / sizeof(float) % 4);
}

// Where the box of a class of the rows (i, j) begins that has n in its first column but for the shift.
struct ShiftedBox {
  int column, long_row;

  __host__ __device__ ShiftedBox(const Tf32Task& task, int class_of_rows, int j, int n) {
    const int row = class_of_rows * task.d + j;
    const int first = shift_of(task.x_data) + (row & (task.x_period - 1)) * static_cast<int>(task.x_strides[3]);
    column = first / 4 * 4 + n - moved(class_of_rows), long_row = row / task.x_period;
  }
};

// The place of a box in a stage, in bytes.
template <class Tile>
__host__ __device__ int place_of_box(int strip, int class_of_rows) {
  return (strip * shifted_classes + class_of_rows) * (Tile::k / shifted_classes * shifted_pitch * 4);
}

template <class Tile>
__device__ inline void copy_shifted(const Tf32Task& task, int i, int j, int n, int k, char* stage, Barrier& full) {
#pragma unroll
  for (int q = 0; q < shifted_classes; ++q)
#pragma unroll
    for (int strip = 0; strip < Tile::batch / shifted_strip; ++strip) {
      const ShiftedBox box(task, q, j, n + strip * shifted_strip);
      load(stage + place_of_box<Tile>(strip, q), task.x, full, Keep::normal, box.column, k / shifted_classes,
           box.long_row, i);
    }
}

// Where in a stage, in bytes, the rows of a lane begin: those k whose remainder by four is the lane's.
template <class Tile>
__host__ __device__ uint32_t place_of_shifted(const Tf32Task& task, int i, int j, int lane) {
  const int q = lane % 4;
  const auto row = (static_cast<uint32_t>(i) * task.c + q) * task.d + j;
  const uint32_t shift = (shift_of(task.x_data) + row * static_cast<uint32_t>(task.x_strides[3])) % 4;
  return place_of_box<Tile>(0, q) + (moved(q) + shift) * 4;
}

// A warp writes 32 neighbours of a row at a time, which lanes have that are eight n apart. All lanes call it.
template <class Tile>
__device__ inline void store_shifted(const Tf32Task& task, const float (&sums)[Tile::units][Tile::unit_sums],
                                     const Tf32Place& place, int warp, int lane) {
  const int t = lane % 4;
  const int64_t n = place.n0 + warp * 32 + 8 * t + lane / 4, stride = task.batch * task.d;
  float* y = task.y_data + ((static_cast<int64_t>(place.i) * task.b + place.r0) * task.d + place.j0) * task.batch + n;
#pragma unroll
  for (int q = 0; q < Tile::unit_sums; q += 4, y += 8 * stride) {
    if (place.r0 + 2 * q >= task.b) break;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float values[4] = {sums[0][q + e], sums[0][q + e + 2], sums[1][q + e], sums[1][q + e + 2]};
      transpose_quad(values, t);
      const bool again = n < task.batch && any_not_finite(values);
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        const int offset = 2 * v + e, r = place.r0 + 2 * q + offset;
        if (n >= task.batch || r >= task.b) continue;
        y[offset * stride] = again ? sum_again<Tile>(task, place.i, r, place.j0, n) : values[v];
      }
    }
  }
}

}  // namespace ksmm::hopper
