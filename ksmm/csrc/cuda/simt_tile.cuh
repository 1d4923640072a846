// The tile of the float32-FMA kernel, and which of them may be compiled.
#pragma once

namespace ksmm {

// A block computes N x R x J outputs, J of them consecutive j, from steps of K columns. A thread computes
// THREAD_N x THREAD_R outputs for each of thread_j consecutive j. A warp covers 32 neighbouring threads' outputs in a
// shape that lets one 16-byte read of shared memory serve several lanes.
template <int N, int R, int J, int K, int THREAD_N, int THREAD_R, int BLOCKS>
struct SimtTile {
  static constexpr int n = N, r = R, j = J, k = K, thread_n = THREAD_N, thread_r = THREAD_R;
  static constexpr int thread_j = J < 4 ? J : 4;
  static constexpr int pack = 4 / thread_j;  // consecutive n, or r, that share a 16-byte word of shared memory with j

  static constexpr int threads_n = N / THREAD_N, threads_r = R / THREAD_R, threads_j = J / thread_j;
  static constexpr int threads = threads_n * threads_r * threads_j;
  static constexpr int warp_r = threads_r % 4 == 0 ? 4 : 2, warp_n = 32 / (warp_r * threads_j);
  static constexpr int warps_n = threads_n / warp_n;
  static constexpr int blocks_per_multiprocessor = BLOCKS;

  // Floats between two columns in shared memory. Without the padding, stores of neighbouring columns meet in one bank.
  static constexpr int padding = J < 4 ? 4 : J;
  static constexpr int x_pitch = N * J + padding, weight_pitch = R * J + padding;
  static constexpr int shared_floats = K * (x_pitch + weight_pitch);

  static_assert(J == 1 || J == 2 || J % 4 == 0, "16-byte words of shared memory hold 1, 2 or 4 consecutive j");
  static_assert(N % THREAD_N == 0 && R % THREAD_R == 0, "threads must share out the tile evenly");
  static_assert(THREAD_N % pack == 0 && THREAD_R % pack == 0, "a thread reads whole 16-byte words");
  static_assert(32 % (warp_r * threads_j) == 0, "a warp must hold whole groups of j");
  static_assert(threads_n % warp_n == 0 && threads_r % warp_r == 0, "warps must share out the tile evenly");
  static_assert(threads % 32 == 0 && threads <= 1024, "a block is a whole number of warps, 1,024 threads at most");
  static_assert(K % 4 == 0, "a step must be a whole number of vectors of 4 along k");
  static_assert(shared_floats * 4 <= 48 * 1024, "static shared memory is 48 KiB at most");
  static_assert(THREAD_N * THREAD_R * thread_j * threads * BLOCKS <= 32768, "the sums may take half of the registers");
};

}  // namespace ksmm
