// Turns X as it lies in shared memory, j varying faster than k, into operands of the matrix units, one for each plane.
#pragma once

#include "barrier.cuh"
#include "planes_tile.cuh"

namespace ksmm::hopper {

// A lane (g = lane / 4, t = lane % 4) of a warp needs for its rows g and g + 8 the pairs of columns (2t, 2t + 1) and
// (2t + 8, 2t + 9) of each plane. In shared memory the planes of a column are neighbours, and those of the next column
// follow: whole vectors are read, and bytes of two columns paired by permutation.
template <class Tile>
struct PlanesFragments {
  static constexpr int J = Tile::j, P = Tile::planes, G = Tile::group;
  static constexpr int column_bytes = 2 * J;
  static constexpr bool joined = G == J;  // both columns of a pair are one run
  // Some lanes read the second column first, and meet others in fewer banks.
  static constexpr bool swaps = Tile::wide || (!joined && (J == 6 || J == 12 || J == 16));
  static constexpr int contiguous = joined ? 4 * J : 2 * G;  // bytes
  static constexpr int vector = contiguous % 16 == 0 ? 16 : contiguous % 8 == 0 ? 8 : 4;
  static constexpr int words = vector / 4;

  // The rows of a block of 8 may change places: the lanes that read together then meet in different banks.
  __device__ static int row_of(int g) {
    if constexpr (J == 4) return (g & 1) << 2 | g >> 1;
    if constexpr (J == 2) return (g & 3) << 1 | g >> 2;
    if constexpr (J == 6 && joined) return (g & 1) | (g & 2) << 1 | g >> 2 << 1;
    return g;
  }

  uint32_t x;           // address of the lane's first row
  uint32_t swizzle;     // what its 16-byte chunks are exchanged by
  uint32_t first_half;  // bytes to the warpgroup's first plane
  uint32_t low, high;   // permutations that pair columns
  uint32_t offset;      // 0, or the second column where it is read first
  int t;

  __device__ PlanesFragments(int warpgroup, int thread) {
    const int lane = thread % 32, row = thread / 32 * 16 + row_of(lane / 4) + (Tile::split ? 0 : warpgroup * 64);
    t = lane % 4;
    x = static_cast<uint32_t>(row) * Tile::pitch;
    swizzle = Tile::row_bytes == 128 ? row % 8 : Tile::row_bytes == 64 ? row / 2 % 4 : 0;
    first_half = Tile::split ? static_cast<uint32_t>(warpgroup) * P * 2 : 0;
    const bool second_first = swaps && (Tile::wide ? lane / 4 % 2 == 1 : t >= 2);
    offset = second_first ? column_bytes : 0;
    low = second_first ? 0x1054 : 0x5410;
    high = second_first ? 0x3276 : 0x7632;
  }

  // The address of a byte of the lane's row, counted from the row's first column of this step.
  __device__ uint32_t address(uint32_t base, uint32_t byte) const {
    if constexpr (Tile::wide) return base + x + (byte ^ (byte >> 7 & 1) << 4);
    constexpr uint32_t box_bytes = Tile::n * Tile::row_bytes;
    const uint32_t box = byte / Tile::row_bytes, within = byte % Tile::row_bytes;
    return base + box * box_bytes + x + (within ^ swizzle << 4);
  }

  __device__ static void read(uint32_t (&to)[words], uint32_t from) {
    if constexpr (words == 4)
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                   : "r"(from));
    else if constexpr (words == 2)
      asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(from));
    else
      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(to[0]) : "r"(from));
  }

  // `fragments` of a group of planes from `first` on, for columns 16 * step .. of the stage whose X begins at `base`.
  __device__ void build(uint32_t (&fragments)[G][4], uint32_t base, int step, int first) const {
    constexpr uint32_t eight_rows = 8 * Tile::pitch;
#pragma unroll
    for (int pair = 0; pair < 2; ++pair)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t byte = (16 * step + 8 * pair + 2 * t) * column_bytes + first_half + 2 * first;
        uint32_t columns[2][(G + 1) / 2 * 2];
        const uint32_t rows = base + half * eight_rows;
        if constexpr (joined)
          read_run(columns, rows, byte);
        else
          read_columns(columns, rows, byte);
#pragma unroll
        for (int plane = 0; plane < G; ++plane) fragments[plane][2 * pair + half] = paired(columns, plane);
      }
  }

  // 2 J elements, the second column's after the first's, as words in order.
  template <int SIZE>
  __device__ void read_run(uint32_t (&columns)[2][SIZE], uint32_t rows, uint32_t byte) const {
#pragma unroll
    for (int at = 0; at < J; at += words) {
      uint32_t part[words];
      read(part, address(rows, byte + 4 * at));
#pragma unroll
      for (int w = 0; w < words; ++w) columns[(at + w) / SIZE][(at + w) % SIZE] = part[w];
    }
  }

  // G elements of each of two columns.
  template <int SIZE>
  __device__ void read_columns(uint32_t (&columns)[2][SIZE], uint32_t rows, uint32_t byte) const {
#pragma unroll
    for (int column = 0; column < 2; ++column)
#pragma unroll
      for (int at = 0; at < G / 2; at += words) {
        uint32_t part[words];
        const uint32_t skip = column == 0 ? offset : column_bytes - offset;
        read(part, address(rows, byte + skip + 4 * at));
#pragma unroll
        for (int w = 0; w < words; ++w) columns[column][at + w] = part[w];
      }
  }

  template <int SIZE>
  __device__ uint32_t paired(const uint32_t (&columns)[2][SIZE], int plane) const {
    if constexpr (!joined) {
      return __byte_perm(columns[0][plane / 2], columns[1][plane / 2], plane % 2 == 0 ? low : high);
    } else {
      const int second = J + plane;  // element of the run
      const uint32_t first_word = columns[plane / 2 / SIZE][plane / 2 % SIZE];
      const uint32_t second_word = columns[second / 2 / SIZE][second / 2 % SIZE];
      const uint32_t selector = (plane % 2 == 0 ? 0x10u : 0x32u) | (second % 2 == 0 ? 0x5400u : 0x7600u);
      return __byte_perm(first_word, second_word, selector);
    }
  }
};

}  // namespace ksmm::hopper
