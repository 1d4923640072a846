// What a block of the kernel for rows at any address is told, and its tile.
#pragma once

#include "gemm_task.cuh"

namespace ksmm::hopper {

struct UnalignedTask : GemmTask {  // without its x and y
  const uint16_t* x_rows;
  const uint16_t* x_end;  // behind the last element
  uint16_t* y_rows;
  int64_t x_i, x_k, x_j, y_i, y_r, y_j;  // elements from one to the next; n are contiguous
  int rows, c;                           // n and k that there are
};

template <int COLUMNS_, int STAGES_>
struct UnalignedTile {
  static constexpr int columns = COLUMNS_;  // r
  static constexpr int stages = STAGES_;
  static constexpr int warpgroups = 2;                 // that multiply, 64 n each
  static constexpr int rows = warpgroups * gemm_rows;  // n
  static constexpr int feeders = 256;                  // threads that bring X and W
  static constexpr int threads = 128 * warpgroups + feeders;
  static constexpr int x_bytes = warpgroups * gemm_box;
  static constexpr int weight_bytes = columns * 128;
  static constexpr int staging_bytes = warpgroups * gemm_box;
  static constexpr int shared_bytes = stages * (x_bytes + weight_bytes) + staging_bytes + 2304;
  static constexpr int pieces = x_bytes / 16 / feeders;  // of 8 n, that a thread brings for a stage
  static_assert(columns % 64 == 0 && columns <= 128, "Y leaves in boxes of 64 r, and the sums of more do not fit");
  static_assert(shared_bytes <= 227 * 1024, "the shared memory of a multiprocessor");
};

}  // namespace ksmm::hopper
