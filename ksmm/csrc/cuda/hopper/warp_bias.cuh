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

  // The same in vectors of four planes: place(column, plane) is where they are, a multiple of 16 bytes, or null.
  template <class Place>
  __device__ void fetch_vectors(int lane, Place place) {
    static_assert(PLANES % 4 == 0, "a vector has four planes");
#pragma unroll
    for (int at = 0; at < 2 * turns; ++at)
#pragma unroll
      for (int plane = 0; plane < PLANES; plane += 4) {
        const float* const from = place(2 * (at / 2 * 32 + lane) + at % 2, plane);
        const float4 four = from == nullptr ? float4{} : __ldg(reinterpret_cast<const float4*>(from));
        float* const to = &values[at / 2][at % 2][plane];
        to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
      }
  }

  // Of column 8 (q / 2) + 2 (lane % 4) + q % 2, as the matrix units lay out sums. All lanes of the warp call it.
  __device__ float of(int q, int plane, int lane) const {
    return __shfl_sync(~0u, values[q / 16][q % 2][plane], q / 2 % 8 * 4 + lane % 4);
  }
};

}  // namespace ksmm::hopper
