// The tile of the kernel for batch_first with d > 1, and which of them may be compiled.
#pragma once

#include <cstdint>

namespace ksmm::hopper {

// A block computes N rows of Y by R rows of W for J consecutive j, its planes, from steps of K columns, of which
// X_STAGES are in shared memory or on their way of X, and WEIGHT_STAGES of W. Its two consumer warpgroups have 64 rows
// n each and all planes, or (SPLIT) the same 64 rows and half of the planes each.
// WIDE: d is more than 16 and its runs of J are fetched one by one; else J is d, and (k, j) are fetched as one run.
// Blocks of a cluster are ALONG_R neighbours along r, which share X, by ALONG_N along n, which share W: each fetches a
// part for all of them. BUFFER: shared memory has room for so many chunks of Y, of 64 rows n of 128 bytes, for each
// warpgroup: Y is put down there all at once or in parts, and leaves it while the next tile is multiplied. 0: it has
// none, and Y leaves by stores of threads or through a chunk or two of 8 columns r.
template <int J_, int R_, int K_, int X_STAGES, int WEIGHT_STAGES, bool SPLIT, bool WIDE, int ALONG_R = 1,
          int ALONG_N = 1, int BUFFER = 0>
struct PlanesTile {
  static constexpr int j = J_, r = R_, k = K_, x_stages = X_STAGES, weight_stages = WEIGHT_STAGES;
  static constexpr int along_r = ALONG_R, along_n = ALONG_N, cluster = ALONG_R * ALONG_N;
  static constexpr bool split = SPLIT, wide = WIDE, buffered = BUFFER != 0;
  using Pair = PlanesTile<J_, R_, K_, X_STAGES, WEIGHT_STAGES, SPLIT, WIDE, 2, 1, BUFFER>;
  static constexpr bool has_beside = cluster == 4 && !WIDE;  // pairs (planes_launch.cuh)
  static constexpr int planes = SPLIT ? J_ / 2 : J_;         // of a warpgroup
  static constexpr int n = SPLIT ? 64 : 128;
  static constexpr int threads = 3 * 128;  // two warpgroups consume; of the third, a warp each fetches X, W and bias

  // X in shared memory: boxes of N rows of row_bytes each, swizzled by as much.
  static constexpr int run_bytes = K_ * J_ * 2;  // what a row n has of a step
  static constexpr int row_bytes = WIDE ? 32 : run_bytes % 128 == 0 ? 128 : 64;
  static constexpr int boxes = WIDE ? 1 : run_bytes / row_bytes;
  static constexpr int pitch = WIDE ? run_bytes : row_bytes;  // from a row n to the next in a box
  // What a block fetches of them: some of the boxes, or some of the rows n of all.
  static constexpr bool by_rows = boxes % ALONG_R != 0;
  static constexpr int own_boxes = by_rows ? boxes : boxes / ALONG_R, own_n = by_rows ? n / ALONG_R : n;
  static constexpr int x_bytes = n * run_bytes;

  // W in shared memory: [plane][r][k], rows of 2 K bytes, swizzled by as much.
  static constexpr int weight_row_bytes = 2 * K_;
  static constexpr int plane_bytes = R_ * weight_row_bytes;
  static constexpr int weight_bytes = J_ * plane_bytes;
  static constexpr int own_planes = J_ / ALONG_N;  // that a block fetches
  static constexpr int ring_bytes = X_STAGES * x_bytes + WEIGHT_STAGES * weight_bytes;
  static constexpr int sums = planes * R_ / 2;  // of a thread
  // The planes that are multiplied at a time: all, or as many as leave the sums in registers, with four for each.
  static constexpr int group = sums + 4 * planes <= 208 ? planes : planes % 4 == 0 ? 4 : 2;
  // What is contiguous in Y, and in the bias, of a thread's planes and two neighbouring r, or one, and in vectors of
  // how many numbers a thread reads or writes it.
  static constexpr int run = SPLIT ? planes : 2 * planes;
  static constexpr int vector = run % 8 == 0 ? 8 : run % 4 == 0 ? 4 : 2;

  // Y leaves a thread as runs of 4 J bytes. Where one instruction of a warp would write parts of sectors (which cost as
  // much as several whole ones), chunks of 8 columns r pass through shared memory to the copy engine; where Y is
  // buffered, chunks with rows of 128 bytes, swizzled by as much. Columns that fill no chunk leave by stores of
  // threads.
  static constexpr bool staged = buffered || SPLIT || J_ > 4 || J_ == 3;
  static constexpr int chunk_rows = 64;
  static constexpr int chunk_row_bytes = buffered ? 128 : 16 * J_;
  static constexpr int chunk_bytes = chunk_rows * chunk_row_bytes;
  static constexpr int chunks_of_rows = 2 * R_ * J_ / chunk_row_bytes;  // whole ones, of 64 rows n
  static constexpr int chunks_at_a_time = BUFFER;
  // Staged chunks leave in turns, two of a warpgroup (of both, where they share them) or one, where no more fit.
  static constexpr int most_bytes = 227 * 1024 - 1024;  // of a block, but for what aligns the rings to 1,024
  static constexpr int sharing = SPLIT ? 1 : 2;         // warpgroups with chunks of their own
  static constexpr int turns = ring_bytes + 2 * sharing * chunk_bytes <= most_bytes ? 2 : 1;
  static constexpr int chunks = !staged ? 0 : buffered ? 2 * BUFFER : turns * sharing;
  static constexpr int shared_bytes = ring_bytes + chunks * chunk_bytes + 1024;
  static constexpr int beside_bytes = 16 * (X_STAGES + WEIGHT_STAGES + 1) + 2 * R_ * J_;  // PlanesShared

  static_assert(K_ == 16 || K_ == 32 || K_ == 64, "rows of W are as long as a swizzle: 32, 64 or 128 bytes");
  static_assert(WIDE ? J_ == 16 && SPLIT : J_ <= 16 || J_ == 24, "wide tiles take one sector: 16 j");
  static_assert(WIDE || run_bytes % row_bytes == 0, "boxes of X are whole");
  static_assert(R_ % 8 == 0 && R_ <= 256, "the matrix instructions have 8 to 256 columns");
  static_assert(weight_bytes % 1024 == 0 && x_bytes % 1024 == 0, "every swizzle starts at a multiple of its period");
  static_assert(sums <= 192 && sums + 4 * group <= 208,
                "the sums must fit into a thread's 240 registers, with what is multiplied");
  static_assert(planes % group == 0, "groups of planes are equal");
  static_assert(n % ALONG_R == 0, "blocks that share X fetch as much of it each");
  static_assert(J_ % ALONG_N == 0, "blocks that share W fetch as many planes each");
  static_assert(cluster == 1 || cluster == 2 || cluster == 4, "clusters that a Machine counts");
  static_assert(!buffered || !SPLIT, "two warpgroups buffer chunks of their own");
  static_assert(!buffered || (BUFFER <= chunks_of_rows && chunks_of_rows * 8 % J_ == 0 &&
                              (BUFFER == chunks_of_rows || BUFFER * 8 % J_ == 0)),
                "each part of Y is whole groups of 8 columns r, of J / 8 chunks each");
  static_assert(X_STAGES >= 2 && WEIGHT_STAGES >= 2, "one stage comes while another is multiplied");
  static_assert(shared_bytes + beside_bytes <= 227 * 1024, "a block has 227 KB of shared memory");
};

}  // namespace ksmm::hopper
