// The tile of the kernel for gradients of weights in batch_first, and where its threads find what they multiply.
//
// ∂W[i, j] is the product of ∂Y[:, i, :, j] and X[:, i, :, j] over n. In memory neighbours are of different j, so that
// a thread reads vectors of eight numbers of two rows n, and pairs these number by number: a word for each, as the
// matrix units of a warp take their operands.
#pragma once

#include <cstdint>

namespace ksmm::hopper {

// A block has R rows r and C columns k of the products of J neighbouring j, and reads N rows n at a time. WIDE: d is
// more than 16, and its runs of J are fetched one by one; else J is d, and (r, j) and (k, j) are fetched as runs.
template <int J_, bool WIDE_>
struct GradientTile {
  static constexpr int j = J_;
  static constexpr bool wide = WIDE_;
  static constexpr int warps = 8, consumers = 32 * warps, threads = consumers + 128;  // a warpgroup produces

  // Of a vector of eight numbers: planes, and neighbouring r (or k).
  static constexpr int planes = J_ < 8 ? J_ : 8, neighbours = 8 / planes;
  static constexpr int sets = J_ / planes;  // of planes, each for other warps

  // A slice of ∂Y or X is a vector for each of the eight lanes with one lane % 4.
  static constexpr int slice = 8 * neighbours;
  static constexpr int y_slices = J_ >= 8 ? 4 : 2, x_slices = J_ == 2 ? 1 : 2;
  static constexpr int y_groups = y_slices * neighbours, x_groups = x_slices * neighbours;  // of eight r, or k
  static constexpr int warp_r = y_slices * slice, warp_c = x_slices * slice;
  static constexpr int warps_r = J_ == 4 ? 4 : J_ == 32 ? 1 : 2, warps_c = warps / sets / warps_r;
  static constexpr int r = warps_r * warp_r, c = warps_c * warp_c;
  static constexpr int sums = y_groups / 2 * x_groups * planes * 4;  // of a thread
  static constexpr int vectors = sums / 8;

  // In shared memory: boxes of rows n, swizzled by as many bytes as they have.
  static constexpr int n = J_ >= 16 ? 16 : 32, stages = J_ == 2 ? 6 : J_ == 8 || J_ == 32 ? 3 : 4;
  static constexpr int row_bytes = WIDE_ ? 2 * J_ : 128;
  static constexpr int box_bytes = n * row_bytes;  // WIDE: of one r
  static constexpr int slice_bytes = n * 128 * sets;
  static constexpr int y_bytes = r * J_ * 2 * n, x_bytes = c * J_ * 2 * n, stage_bytes = y_bytes + x_bytes;
  static constexpr int y_boxes = r * J_ / 64, x_boxes = c * J_ / 64;  // of 64 numbers; WIDE has one of all r
  static constexpr int shared_bytes = stages * stage_bytes + 1024;    // aligned to 1,024

  static_assert(J_ == 2 || J_ == 4 || J_ == 8 || J_ == 16 || J_ == 32, "vectors of eight numbers have whole planes");
  static_assert(WIDE_ ? J_ >= 16 : J_ <= 16, "wide tiles take one sector or two, others what a row of 64 has");
  static_assert(y_slices * slice_bytes * warps_r == y_bytes, "slices are all of a stage");
  static_assert(sums == 128, "with both operands they fit into a thread's 240 registers");
  static_assert(stage_bytes % 1024 == 0 && y_bytes % 1024 == 0, "every swizzle starts at a multiple of its period");
  static_assert(stages >= 2 && shared_bytes <= 227 * 1024, "a block has 227 KB of shared memory");
};

// What a lane reads: with g = lane / 4 and t = lane % 4 the g-th vector of each slice, of four rows n of each 16.
template <class Tile>
struct GradientLane {
  int g, t, set, first_r, first_c;
  uint32_t first, second;  // bytes to the vectors of two rows n, in the order in which they are read
  uint32_t even, odd;      // permutations that pair their numbers, those of the lower row n first

  __host__ __device__ GradientLane(int warp, int lane) : g(lane / 4), t(lane % 4), set(warp % Tile::sets) {
    const int place = warp / Tile::sets;
    first_r = place / Tile::warps_c * Tile::warp_r, first_c = place % Tile::warps_c * Tile::warp_c;
    const int lower = Tile::row_bytes == 32 ? t : 2 * t, upper = Tile::row_bytes == 32 ? t + 4 : 2 * t + 1;
    // Lanes of two g read together; with several sets of planes in a row of shared memory they would meet in one bank.
    const bool upper_first = Tile::sets > 1 && g % 2 == 1;
    first = offset(upper_first ? upper : lower), second = offset(upper_first ? lower : upper);
    even = upper_first ? 0x1054 : 0x5410, odd = upper_first ? 0x3276 : 0x7632;
  }

  // Bytes to the lane's vector in row n of a slice.
  __host__ __device__ uint32_t offset(int n) const {
    const uint32_t row = static_cast<uint32_t>(n) * Tile::row_bytes;
    if constexpr (Tile::wide) {
      const int swizzle = Tile::row_bytes == 32 ? n >> 2 & 1 : n >> 1 & 3;
      return g * Tile::box_bytes + row + ((set ^ swizzle) << 4);
    }
    if constexpr (Tile::sets == 2) return g / 4 * Tile::box_bytes + row + (((2 * (g % 4) + set) ^ (n & 7)) << 4);
    return row + ((g ^ (n & 7)) << 4);
  }

  // Bytes from the stage to a slice of ∂Y and of X.
  __host__ __device__ uint32_t y_slice(int number) const {
    return (first_r / Tile::slice + number) * Tile::slice_bytes;
  }
  __host__ __device__ uint32_t x_slice(int number) const {
    return Tile::y_bytes + (first_c / Tile::slice + number) * Tile::slice_bytes;
  }
};

// Where in the tile's products a thread has its vector of sums of that number: eight numbers that are neighbours in
// ∂W as (a, b, c, d). They are those of the group of r `group`, of the slice of k `slice`, and in each of its groups
// of column 2 t + `column`.
template <class Tile>
struct GradientVector {
  int group, slice, column;
  int r, c, j;

  __host__ __device__ GradientVector(const GradientLane<Tile>& lane, int number)
      : group(number / 2 / Tile::x_slices), slice(number / 2 % Tile::x_slices), column(number % 2) {
    r = lane.first_r + group / Tile::neighbours * Tile::slice + lane.g * Tile::neighbours + group % Tile::neighbours;
    c = lane.first_c + slice * Tile::slice + (2 * lane.t + column) * Tile::neighbours;
    j = lane.set * Tile::planes;
  }
};

struct GradientTask {
  uint16_t* gradient;  // (a, b, c, d)
  float* parts;        // of the sums, (part, tile, vector, thread, 8), or null where there is one part
  int a, b, c, d;
  int tiles_r, tiles_c, tiles_j;
  int steps, parts_of_batch;  // of N rows n each
};

// Where a part of the batch begins.
__host__ __device__ inline int first_step(const GradientTask& task, int part) {
  return static_cast<int>(static_cast<int64_t>(task.steps) * part / task.parts_of_batch);
}

struct GradientOrigin {
  int i, r, c, j, part;
};

// Tiles of one part of the batch are neighbours, which read the same of it.
template <class Tile>
__host__ __device__ GradientOrigin gradient_origin(const GradientTask& task, int64_t block) {
  const int64_t after_c = block / task.tiles_c, after_r = after_c / task.tiles_r, after_j = after_r / task.tiles_j;
  const int64_t part = after_j / task.a;
  return {static_cast<int>(after_j - part * task.a), static_cast<int>(after_c - after_r * task.tiles_r) * Tile::r,
          static_cast<int>(block - after_c * task.tiles_c) * Tile::c,
          static_cast<int>(after_r - after_j * task.tiles_j) * Tile::j, static_cast<int>(part)};
}

// Where a vector belongs in ∂W, or -1 if it is none of it.
template <class Tile>
__host__ __device__ int64_t gradient_place(const GradientTask& task, const GradientOrigin& origin,
                                           const GradientVector<Tile>& vector) {
  const int r = origin.r + vector.r, c = origin.c + vector.c, j = origin.j + vector.j;
  if (r >= task.b || c >= task.c || j >= task.d) return -1;
  return ((static_cast<int64_t>(origin.i) * task.b + r) * task.c + c) * task.d + j;
}

}  // namespace ksmm::hopper
