// The tile of a kernel of the TF32 family: what one block computes at a time, and what of it lies in shared memory.
#pragma once

#include "products.cuh"

namespace ksmm::hopper {

// How X is cut into boxes. rows: batch_last, 32 n by K. shifted: the same where rows begin anywhere, every fourth k of
// 128 n (tf32_shifted.cuh). runs: batch_first with all j of a factor in the tile, runs of 32 floats of (k, j). sectors:
// batch_first with 8 of many j, 32 bytes for each of 4 k.
enum class Access { rows, shifted, runs, sectors };

constexpr int shifted_strip = 128, shifted_pitch = 160;  // n of a box, and floats from row to row of it

// How float32 is multiplied there: rounded to TF32; as the sum of three of bfloat16 (parts), six products for one; as
// that of two of float16 with a scale (halves), three products for one.
enum class Arithmetic { tf32, parts, halves };

constexpr int consumer_threads = 256, consumer_barrier = 1;  // those that multiply, and the number of their barrier

// PLANES values of j and ROWS of b, for each of two warpgroups BLOCKS times 64 of the batch: of different rows, or
// (SPLIT) of the same rows and half of the planes each; K of c at a time, FRESH of them summed before they join the
// others.
template <Access ACCESS, int PLANES, int BLOCKS, int ROWS, bool SPLIT, int K, int FRESH, Arithmetic ARITHMETIC>
struct Tf32Tile {
  static constexpr Access access = ACCESS;
  static constexpr int planes = PLANES, blocks = BLOCKS, rows = ROWS, k = K, fresh = FRESH;
  static constexpr bool in_batch_last = ACCESS == Access::rows || ACCESS == Access::shifted;
  static constexpr bool split = SPLIT, in_parts = ARITHMETIC == Arithmetic::parts,
                        in_halves = ARITHMETIC == Arithmetic::halves;
  static constexpr int warpgroup_planes = SPLIT ? PLANES / 2 : PLANES;
  static constexpr int warpgroup_batch = 64 * BLOCKS;
  static constexpr int batch = warpgroup_batch * (SPLIT ? 1 : 2);
  static constexpr int units = warpgroup_planes * BLOCKS;  // matrices of 64 x ROWS sums in a warpgroup
  static constexpr int unit_sums = ROWS / 2;
  // Two sets of fresh sums, so that one is added up while the other is multiplied, where registers allow.
  static constexpr int buffers = ARITHMETIC != Arithmetic::tf32 && units * unit_sums + 2 * unit_sums <= 176 ? 2 : 1;
  // How many units one load of X from shared memory serves.
  static constexpr int pack = in_batch_last     ? (in_halves && ROWS > 96 ? 1 : BLOCKS)  // more would spill
                              : PLANES % 4 == 0 ? (in_halves && FRESH == 32 ? 2 : 4)
                              : PLANES % 2 == 0 ? 2
                                                : 1;

  static constexpr int x_row_floats = ACCESS == Access::shifted ? batch / shifted_strip * shifted_pitch : batch;
  static constexpr int x_bytes = x_row_floats * PLANES * K * 4, weight_bytes = PLANES * rows * K * 4;
  static constexpr int part_bytes = weight_bytes / 2;  // of W in 16 bits
  static constexpr int stage_bytes = x_bytes + weight_bytes + (in_parts ? 3 * part_bytes : 0);
  static constexpr int shared_limit = 227 * 1024, barrier_bytes = 256;
  static constexpr int fitting = (shared_limit - 1024 - barrier_bytes) / stage_bytes;
  static constexpr int stages = fitting < 8 ? fitting : 8;
  static constexpr int steps = K / FRESH * units;

  // Of the threads that do not multiply, one warp copies and the others split W: seven where a stage has much of it.
  // There X is split ahead of the products beside which that should run, too. Fewer planes took up to 1.05 times as
  // long with both.
  static constexpr bool eager = PLANES >= 6 && !in_halves;
  // Whether a warpgroup's number, of which addresses of W depend where it is split, is in uniform registers.
  static constexpr bool uniform = eager || (in_halves && SPLIT);
  static constexpr int producer_threads = eager ? 256 : 128, splitter_threads = producer_threads - 32;
  static constexpr int threads = producer_threads + consumer_threads;
  static constexpr int consumer_registers = eager       ? 208
                                            : in_halves ? 240
                                                        : 232,
                       producer_registers = eager       ? 48
                                            : in_halves ? 24
                                                        : 40;

  // Tiles of sectors are handed out in turn (tf32_kernel.cuh), where halves leave the matrix units time to wait for
  // memory: in parts it changed nothing.
  static constexpr bool in_turn = in_halves && ACCESS == Access::sectors;

  // Y of batch_first passes through places that warps have in turns: 16 n of y_columns r, or 8 n where there are 8
  // planes. They lie beside the stages, or, where these leave no room, in the stage that was read last.
  static constexpr bool staged = !in_batch_last;
  static constexpr int y_columns = PLANES >= 3 ? 8 : PLANES == 1 && ROWS % 32 == 0 ? 32 : 16;
  static constexpr int y_row_bytes = (PLANES == 8 ? 1 : y_columns) * PLANES * 4;  // of the box
  static constexpr int place_bytes = (PLANES == 8 ? 8 * 8 : 16) * y_row_bytes;
  static constexpr int places_of_all = 8 * place_bytes;  // one of each warp
  static constexpr int left = shared_limit - 1024 - barrier_bytes - stages * stage_bytes;
  static constexpr bool beside = staged && !SPLIT && left >= 2 * places_of_all;
  static constexpr bool keeps_stage = staged && !beside;  // which is given back during the next tile
  static constexpr int places = (beside ? left : stage_bytes) / places_of_all;
  // Who gives a stage back: a lane of each warp, or, for what it wrote of Y there, each thread. One lane could for all
  // of them, since __syncwarp() comes before; but racecheck does not follow that, and either takes as long.
  static constexpr int givers = keeps_stage && !SPLIT ? consumer_threads : consumer_threads / 32;
  static constexpr int staging_bytes = beside ? places * places_of_all : 0;
  static constexpr int shared_bytes = stages * stage_bytes + staging_bytes + 1024 + barrier_bytes;

  // What the matrix units read: rows of W in TF32, or of its parts in 16 bits.
  static constexpr int row_bytes = ARITHMETIC == Arithmetic::tf32 ? K * 4 : K * 2;
  static constexpr Swizzle swizzle = row_bytes == 128  ? Swizzle::bytes_128
                                     : row_bytes == 64 ? Swizzle::bytes_64
                                                       : Swizzle::bytes_32;

  static_assert(K == 16 || K == 32, "a row of W in shared memory is as long as a swizzle");
  static_assert(K % FRESH == 0 && FRESH % 16 == 0, "an instruction multiplies 16 of c, a stage holds whole sums");
  static_assert(ROWS % 8 == 0 && rows <= 256, "columns come in groups of 8, a box has 256 at most");
  static_assert(units * unit_sums <= 144, "240 registers a thread, some of them for fresh sums and for X");
  static_assert(!in_batch_last || (PLANES == 1 && BLOCKS == 2 && K == 32), "16 bytes are 4 n, of two blocks");
  static_assert(in_batch_last || PLANES * K % 32 == 0, "boxes of 128 bytes for each n");
  static_assert(ACCESS != Access::sectors || PLANES == 8, "a sector has 8 j");
  static_assert(weight_bytes % 1024 == 0 && part_bytes % 512 == 0 && stage_bytes % 1024 == 0,
                "swizzles repeat so often");
  static_assert(!staged || (ROWS % y_columns == 0 && places >= 1 && place_bytes % 512 == 0),
                "a box of Y holds columns of one tile, and fits");
  static_assert(!staged || y_row_bytes != 128 || place_bytes % 1024 == 0, "and as often those of Y");
  static_assert(stages >= 2, "one stage is filled while another is multiplied");
  static_assert(!in_parts || steps % 2 == 0, "two sets of parts of X alternate, across stages too");
};

}  // namespace ksmm::hopper
