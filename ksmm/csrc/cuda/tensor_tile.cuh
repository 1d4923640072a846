// The tile of the matrix-unit kernel, and which of them may be compiled.
#pragma once

namespace ksmm {

// A block computes N x R x J outputs, J of them consecutive j, from steps of K columns; STAGES steps are in shared
// memory at a time, one being multiplied and the others on their way. A warp computes WARP_N x WARP_R outputs for all
// J. BLOCKS share a multiprocessor, which limits the registers of a thread.
template <int N, int R, int J, int K, int WARP_N, int WARP_R, int STAGES, int BLOCKS>
struct TensorTile {
  static constexpr int n = N, r = R, j = J, k = K, warp_n = WARP_N, warp_r = WARP_R, stages = STAGES;
  static constexpr int group = J < 8 ? J : 8;  // the j that one 16-byte read of shared memory brings
  static constexpr int warps_n = N / WARP_N, warps_r = R / WARP_R, warps = warps_n * warps_r;
  static constexpr int threads = 32 * warps;
  static constexpr int sums_per_thread = WARP_N * WARP_R * J / 32;
  static constexpr int blocks_per_multiprocessor = BLOCKS;

  static_assert(J == 1 || J == 2 || J == 4 || J == 8 || J == 16, "a warp holds 1, 2, 4, 8 or 16 consecutive j");
  static_assert(K % 16 == 0, "the matrix units multiply 16 columns at once");
  static_assert(N % WARP_N == 0 && R % WARP_R == 0, "warps must share out the tile evenly");
  static_assert(WARP_N % 16 == 0 && WARP_R % 16 == 0, "a warp multiplies whole matrices, two 16 x 8 ones side by side");
  static_assert(J > 1 || (WARP_N % 32 == 0 && WARP_R % 32 == 0),
                "with J = 1 four lanes exchange four matrices of sums");
  static_assert(sums_per_thread <= 128, "the sums must fit into a thread's 255 registers, with what is multiplied");
  static_assert(threads <= 1024 && threads * BLOCKS * sums_per_thread <= 49152,
                "the sums may take three quarters of the registers");
  static_assert(STAGES >= 2, "a step is on its way while another is multiplied");
};

}  // namespace ksmm
