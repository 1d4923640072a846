// Brings the sums of a tile of the planes kernel to Y through chunks of shared memory, all at once or in parts: the
// threads wait for each other, and for a part before to be read, and the copy engine writes while they go on.
#pragma once

#include "copy.cuh"
#include "planes_store.cuh"

namespace ksmm::hopper {

// For tiles whose warpgroups have all planes of 64 rows n each.
template <class T, class Tile>
struct PlanesBufferedStore {
  using Runs = PlanesStore<T, Tile>;
  static constexpr int P = Tile::planes, width = Tile::chunk_row_bytes / 2;  // elements of a row n in a chunk
  static constexpr int chunks = Tile::chunks_of_rows, part = Tile::chunks_at_a_time;
  // Of 8 columns r; others leave by stores of threads.
  static constexpr int groups_in_chunks = chunks * width / (8 * P);

  __device__ static void store(const PlanesTask& task, const CUtensorMap& y, char* room, const PlanesOrigin& origin,
                               const float (&sums)[P][Tile::r / 2], int warpgroup, int thread) {
    char* const own = room + warpgroup * part * Tile::chunk_bytes;
#pragma unroll
    for (int first = 0; first < chunks; first += part) {
      if (thread == 0) wait_for_store_reads<0>();
      synchronize(1 + warpgroup, 128);
      fill(own, sums, first, thread);
      fence_for_engines();
      synchronize(1 + warpgroup, 128);
      if (thread == 0) issue(task, y, own, origin, first, warpgroup);
    }
    Runs::store_groups(task, origin, sums, warpgroup, thread, groups_in_chunks);
  }

  // One thread has the chunks from `first` on written.
  __device__ static void issue(const PlanesTask& task, const CUtensorMap& y, const char* own,
                               const PlanesOrigin& origin, int first, int warpgroup) {
#pragma unroll
    for (int chunk = first; chunk < min(first + part, chunks); ++chunk) {
      const int place = origin.r * Tile::j + chunk * width;
      if (place < task.b * Tile::j)
        hopper::store(y, own + (chunk - first) * Tile::chunk_bytes, place, origin.i, origin.n + warpgroup * 64);
    }
    commit_stores();
  }

  // Where an element of a row n of a part, [r][j], lies.
  __device__ static int offset_of(int row, int element) {
    const int byte = 2 * element;
    return byte / 128 * Tile::chunk_bytes + row * 128 + (byte % 128 ^ row % 8 * 16);
  }

  // Puts down the chunks from `first` on, runs of P elements or more of which none is in two parts.
  __device__ static void fill(char* own, const float (&sums)[P][Tile::r / 2], int first, int thread) {
    const int lane = thread % 32, t = lane % 4;
    const int row = thread / 32 * 16 + PlanesFragments<Tile>::row_of(lane / 4);
    const int group = first * width / (8 * P), end = min(first + part, chunks) * width / (8 * P);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int q = group; q < end; ++q) {
        const auto bits = [&](int e) -> uint32_t { return to_bits<T>(sums[e % P][q * 4 + half * 2 + e / P]); };
#pragma unroll
        for (int at = 0; at < Runs::run; at += Runs::vector) {
          uint32_t words[Runs::vector / 2];
#pragma unroll
          for (int e = 0; e < Runs::vector; e += 2) words[e / 2] = bits(at + e) | bits(at + e + 1) << 16;
          const int element = ((q - group) * 8 + 2 * t) * P + at;
          Runs::put(reinterpret_cast<uint16_t*>(own + offset_of(row + half * 8, element)), words);
        }
      }
  }
};

}  // namespace ksmm::hopper
