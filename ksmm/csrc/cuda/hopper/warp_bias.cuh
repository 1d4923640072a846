// The bias of a warpgroup's sums, on its way to the lanes that add it.
#pragma once

namespace ksmm::hopper {

// Each warp holds it once: its lanes have pairs of the COLUMNS r in turns, with PLANES values of j, and shuffle them to
// those that need them. So all of it is on its way at once; read where it is needed, between stores, each number would
// be waited for by itself.
template <int COLUMNS, int PLANES>
struct WarpBias {
  static constexpr int turns = (COLUMNS / 2 + 31) / 32;
  float values[turns][2][PLANES];

  // read(column, plane): a number, or 0 outside of Y; columns of the last turn may exceed COLUMNS.
  template <class Read>
  __device__ void fetch(int lane, Read read) {
#pragma unroll
    for (int at = 0; at < 2 * turns; ++at)
#pragma unroll
      for (int plane = 0; plane < PLANES; ++plane)
        values[at / 2][at % 2][plane] = read(2 * (at / 2 * 32 + lane) + at % 2, plane);
  }

  // Of column 8 (q / 2) + 2 (lane % 4) + q % 2, as the matrix units lay out sums. All lanes of the warp call it.
  __device__ float of(int q, int plane, int lane) const {
    return __shfl_sync(~0u, values[q / 16][q % 2][plane], q / 2 % 8 * 4 + lane % 4);
  }
};

}  // namespace ksmm::hopper
