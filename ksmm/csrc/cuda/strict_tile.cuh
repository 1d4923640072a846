// The tile of the strict float32 kernel, how it lies in shared memory, and which tiles may be compiled.
#pragma once

namespace ksmm {

// A block computes N x R x J outputs, J of them consecutive j, from steps of 8 columns. Each warp works on one j, and a
// thread computes THREAD_N x THREAD_R outputs of it: nothing is shared between different j, so a thread that held
// several would read more of shared memory for every product. Lanes are LANES_N by 32 / LANES_N, so that one 16-byte
// read serves several of them.
template <int J, int THREAD_N, int THREAD_R, int LANES_N, int WARPS_N, int WARPS_R, int STAGES, int BLOCKS>
struct StrictTile {
  static constexpr int thread_n = THREAD_N, thread_r = THREAD_R, lanes_n = LANES_N, lanes_r = 32 / LANES_N;
  static constexpr int warps_n = WARPS_N, warps_r = WARPS_R, warps = J * WARPS_N * WARPS_R, threads = 32 * warps;
  static constexpr int threads_n = LANES_N * WARPS_N, threads_r = lanes_r * WARPS_R;
  static constexpr int n = threads_n * THREAD_N, r = threads_r * THREAD_R, j = J, k = 8;
  static constexpr int stages = STAGES, blocks_per_multiprocessor = BLOCKS;

  // Shared memory holds a plane for each j, with columns of X or W as rows, in floats. The 8 consecutive elements of
  // (column, j) that neighbouring lanes write, 4 n or r of each, meet 32 different banks (J = 6: nearly).
  static constexpr int skew = J == 1 ? 0 : J == 2 ? 16 : J == 3 || J == 6 ? 12 : J == 4 ? 8 : 4;
  static constexpr int x_pitch = n + 4, x_plane = k * x_pitch + skew;
  static constexpr int weight_pitch = r + 4, weight_plane = k * weight_pitch + skew;
  static constexpr int x_floats = J * x_plane, stage_floats = x_floats + J * weight_plane;

  // On their way out the sums of a round lie in planes of rows of r; the padding spreads the LANES_N rows that 8 lanes
  // write at once over the banks.
  static constexpr int rounds = THREAD_N / 4, round_n = n / rounds;
  static constexpr int sum_pitch = r + 32 / LANES_N, sum_plane = round_n * sum_pitch + skew;
  static constexpr int sum_floats = J == 1 ? 0 : J * sum_plane;
  static constexpr int shared_floats = stages * stage_floats > sum_floats ? stages * stage_floats : sum_floats;
  static constexpr int shared_bytes = 4 * shared_floats;
  static constexpr int y_vector = J == 6 ? 2 : 4;  // consecutive (r, j) of Y that a thread writes at once

  static_assert(32 % LANES_N == 0 && THREAD_N % 4 == 0 && THREAD_R % 4 == 0, "a thread reads 16-byte words");
  static_assert(n % 32 == 0 || (J == 1 && n % 16 == 0),
                "a warp copies 4 n at a time, and pitches rely on whole rows of banks, those of one j on halves");
  static_assert(J == 1 || J == 2 || J == 3 || J == 4 || J == 6 || J == 8, "skews are known for these J");
  static_assert(n % (4 * WARPS_N * WARPS_R) == 0 && r % (4 * WARPS_N * WARPS_R) == 0,
                "the warps of a j must share out its copies evenly");
  static_assert(x_plane % 4 == 0 && weight_plane % 4 == 0 && sum_plane % 4 == 0, "16-byte words must be aligned");
  static_assert(stages >= 2, "a step is copied while another is multiplied");
  static_assert(shared_bytes <= 99 * 1024, "all supported GPUs but the oldest have 99 KiB for a block");
  static_assert(threads <= 1024 && THREAD_N * THREAD_R * threads * BLOCKS <= 49152,
                "the sums leave a quarter of the registers free");
};

}  // namespace ksmm
