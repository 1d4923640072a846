// The tile of the matrix-unit kernel, and which of them may be compiled.
#pragma once

namespace ksmm {

// A block computes N x R x J outputs, J of them consecutive j, from steps of K columns, two steps in shared memory at a
// time. A warp computes WARP_N x WARP_R of them for `planes` consecutive j. BLOCKS share a multiprocessor, which limits
// the registers of a thread.
template <int N, int R, int J, int K, int WARP_N, int WARP_R, int BLOCKS>
struct TensorTile {
  static constexpr int n = N, r = R, j = J, k = K, warp_n = WARP_N, warp_r = WARP_R;
  static constexpr int planes = J < 8 ? J : 8;  // the j that one 16-byte read of shared memory brings
  static constexpr int pieces = J / planes;
  static constexpr int warps_n = N / WARP_N, warps_r = R / WARP_R, warps = warps_n * warps_r * pieces;
  static constexpr int threads = 32 * warps;
  static constexpr int sums_per_thread = WARP_N * WARP_R * planes / 32;
  static constexpr int blocks_per_multiprocessor = BLOCKS;

  static_assert(J == 1 || J == 2 || J == 4 || J % 8 == 0, "a read of shared memory brings 1, 2, 4 or 8 consecutive j");
  static_assert(K % 16 == 0, "the matrix units multiply 16 columns at once");
  static_assert(N % WARP_N == 0 && R % WARP_R == 0, "warps must share out the tile evenly");
  static_assert(WARP_N % 16 == 0 && WARP_R % 16 == 0, "a warp multiplies whole matrices, two 16 x 8 ones side by side");
  static_assert(sums_per_thread <= 128, "the sums must fit into a thread's 255 registers, with what is multiplied");
  static_assert(threads <= 1024 && threads * BLOCKS * sums_per_thread <= 32768,
                "the sums may take half of the registers");
};

}  // namespace ksmm
