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
  static constexpr int starts = joined ? 1 : 2;  // places where a lane's vectors of columns begin: of both, or of each

  // Vector `at` of a start, of columns 16 * step + 8 * pair and following, is so many bytes further. All lanes share
  // this distance but for the swizzle, which leaves whole periods alone, and what is within a chunk of 16 bytes. The
  // rest of it, the key, goes into the lane's offset.
  __host__ __device__ static constexpr int distance(int step, int pair, int at) {
    return (16 * step + 8 * pair) * column_bytes + at * vector;
  }
  static constexpr int period = Tile::wide ? 256 : Tile::row_bytes;
  static constexpr int chunk = 4 * J % 16 == 0 && (joined || (J % 8 == 0 && P % 8 == 0)) ? 16 : 4;
  __host__ __device__ static constexpr int key(int distance) { return distance % period / chunk * chunk; }
  __host__ __device__ static constexpr uint32_t beyond_key(int distance) {
    constexpr int period_bytes = Tile::wide ? 256 : Tile::n * Tile::row_bytes;
    return distance / period * period_bytes + distance % period - key(distance);
  }

  // How many keys there are before the first one that is `last`; all of them if none is.
  __host__ __device__ static constexpr int keys_before(int last) {
    int count = 0;
    bool seen[256] = {};
    for (int step = 0; step < Tile::k / 16; ++step)
      for (int pair = 0; pair < 2; ++pair)
        for (int at = 0; at < (joined ? J : P / 2) / words; ++at) {
          const int next = key(distance(step, pair, at));
          if (next == last) return count;
          count += seen[next] ? 0 : 1;
          seen[next] = true;
        }
    return count;
  }
  static constexpr int keys = keys_before(-1);

  // The rows of a block of 8 may change places: the lanes that read together then meet in different banks.
  __device__ static int row_of(int g) {
    if constexpr (J == 4) return (g & 1) << 2 | g >> 1;
    if constexpr (J == 2) return (g & 3) << 1 | g >> 2;
    if constexpr (J == 6 && joined) return (g & 1) | (g & 2) << 1 | g >> 2 << 1;
    return g;
  }

  uint32_t low, high;              // permutations that pair columns
  uint32_t offsets[starts][keys];  // from a stage's beginning, for the lane's first row

  __device__ PlanesFragments(int warpgroup, int thread) {
    const int lane = thread % 32, t = lane % 4;
    const int row = thread / 32 * 16 + row_of(lane / 4) + (Tile::split ? 0 : warpgroup * 64);
    const uint32_t first_half = Tile::split ? static_cast<uint32_t>(warpgroup) * P * 2 : 0;
    const bool second_first = swaps && (Tile::wide ? lane / 4 % 2 == 1 : t >= 2);
    low = second_first ? 0x1054 : 0x5410;
    high = second_first ? 0x3276 : 0x7632;
#pragma unroll
    for (int step = 0; step < Tile::k / 16; ++step)
#pragma unroll
      for (int pair = 0; pair < 2; ++pair)
#pragma unroll
        for (int at = 0; at < (joined ? J : P / 2) / words; ++at)
#pragma unroll
          for (int start = 0; start < starts; ++start) {
            const int of = key(distance(step, pair, at));
            const uint32_t column = (start == 1) != second_first ? column_bytes : 0;
            offsets[start][keys_before(of)] = offset_of(row, 2 * t * column_bytes + first_half + column + of);
          }
    if constexpr (pinned) pin(lane);
  }

  // Where a byte of a row lies, counted from the row's first column of a step.
  __device__ static uint32_t offset_of(int row, uint32_t byte) {
    const uint32_t x = static_cast<uint32_t>(row) * Tile::pitch;
    if constexpr (Tile::wide) return x + (byte ^ (byte >> 7 & 1) << 4);
    const uint32_t swizzle = Tile::row_bytes == 128 ? row % 8 : row / 2 % 4;
    const uint32_t box = byte / Tile::row_bytes, within = byte % Tile::row_bytes;
    return box * (Tile::n * Tile::row_bytes) + x + (within ^ swizzle << 4);
  }

  // Left alone, the compiler works the offsets out before each read, from as few registers as it can, in more
  // instructions than all the rest takes; what comes by a shuffle it keeps. Where registers are left for them.
  static constexpr bool pinned = Tile::sums + 4 * G + starts * keys <= 214;
  __device__ void pin(int lane) {
#pragma unroll
    for (int start = 0; start < starts; ++start)
#pragma unroll
      for (int at = 0; at < keys; ++at) offsets[start][at] = __shfl_sync(~0u, offsets[start][at], lane);
    low = __shfl_sync(~0u, low, lane), high = __shfl_sync(~0u, high, lane);
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

  // Whether there are registers for what is read while a group is multiplied; of odd planes, words of two columns cost
  // some more.
  static constexpr bool reads_early = !joined || Tile::sums + 10 * G + (J % 2 == 0 ? 0 : 24) <= 232;

  // What a lane reads for a group of planes: [pair of columns][row g, g + 8][column][word].
  static constexpr int column_words = (G + 1) / 2 * 2;
  using Columns = uint32_t[2][2][2][column_words];

  // Of planes from `first` on, for columns 16 * step .. of the stage whose X begins at `base`. A run of both columns
  // has the second one's numbers after the first one's, as words in order.
  __device__ void read_columns(Columns& columns, uint32_t base, int step, int first) const {
#pragma unroll
    for (int pair = 0; pair < 2; ++pair)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int start = 0; start < starts; ++start)
#pragma unroll
          for (int at = 0; at < (joined ? J : G / 2); at += words) {
            const int from = distance(step, pair, 2 * first / vector + at / words);
            uint32_t part[words];
            read(part, base + offsets[start][keys_before(key(from))] + (half * 8 * Tile::pitch + beyond_key(from)));
#pragma unroll
            for (int w = 0; w < words; ++w)
              columns[pair][half][joined ? (at + w) / column_words : start][(at + w) % column_words] = part[w];
          }
  }

  // The operands, one for each plane of the group.
  __device__ void build(uint32_t (&fragments)[G][4], const Columns& columns) const {
#pragma unroll
    for (int pair = 0; pair < 2; ++pair)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int plane = 0; plane < G; ++plane) fragments[plane][2 * pair + half] = paired(columns[pair][half], plane);
  }

  __device__ uint32_t paired(const uint32_t (&columns)[2][column_words], int plane) const {
    if constexpr (!joined) {
      return __byte_perm(columns[0][plane / 2], columns[1][plane / 2], plane % 2 == 0 ? low : high);
    } else {
      const int second = J + plane;  // element of the run
      const uint32_t first_word = columns[plane / 2 / column_words][plane / 2 % column_words];
      const uint32_t second_word = columns[second / 2 / column_words][second / 2 % column_words];
      const uint32_t selector = (plane % 2 == 0 ? 0x10u : 0x32u) | (second % 2 == 0 ? 0x5400u : 0x7600u);
      return __byte_perm(first_word, second_word, selector);
    }
  }
};

}  // namespace ksmm::hopper
