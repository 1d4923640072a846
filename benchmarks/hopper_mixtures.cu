// What memory gives to reads and writes together, and to the addresses of X and Y in batch_last, without a product:
//
//     nvcc -O3 -std=c++17 -arch=sm_90a hopper_mixtures.cu -o hopper_mixtures && ./hopper_mixtures
//
// First so many bytes written for so many that are read, all of them neighbours, 16 bytes a thread, in TB/s. Then each
// pattern's X is read once and its Y written once, 25,088 columns of 16 bits, in microseconds: a block of 512 threads
// takes a tile, all c rows of X by `width` bytes of them and `rows` of the b rows of Y. The best of several widths and
// of both orders of tiles, with a block for each tile, and with so few that they stay for many.
#include <cstdint>
#include <initializer_list>

#include "hopper_limits.h"

namespace {

constexpr int64_t room = int64_t{3} << 30;
constexpr int most_at_once = 132 * 4;  // blocks of 512 threads

// So that all that is read is needed.
__device__ void mix_in(uint4& sum, const uint4& read) {
  sum.x ^= read.x, sum.y ^= read.y, sum.z ^= read.z, sum.w ^= read.w;
}

template <int READS, int WRITES>
__global__ void mix(const uint4* from, uint4* to, int64_t vectors) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x; first < vectors; first += stride) {
    if (first + threadIdx.x >= vectors) break;
    uint4 sum = {1, 2, 3, 4}, read[READS > 0 ? READS : 1];
#pragma unroll
    for (int at = 0; at < READS; ++at) read[at] = __ldcs(from + first * READS + at * blockDim.x + threadIdx.x);
#pragma unroll
    for (int at = 0; at < READS; ++at) mix_in(sum, read[at]);
#pragma unroll
    for (int at = 0; at < WRITES; ++at) to[first * WRITES + at * blockDim.x + threadIdx.x] = sum;
    if (WRITES == 0 && (sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x12345) to[0] = sum;  // or nothing would be read
  }
}

template <int READS, int WRITES>
void measure_mixture(const void* from, void* to, int64_t bytes) {
  const int64_t vectors = bytes / 16 / (READS + WRITES) / 4096 * 4096;
  float least = 1e9;
  for (const int blocks : {132, 132 * 2, 132 * 4, 132 * 8, 132 * 32, 65536})
    for (const int threads : {128, 256, 512, 1024})
      least = std::min(least, least_milliseconds([&] {
                         mix<READS, WRITES>
                             <<<blocks, threads>>>(static_cast<const uint4*>(from), static_cast<uint4*>(to), vectors);
                       }));
  std::printf("%lld MiB, %d read to %d written: %.2f TB/s\n", static_cast<long long>(bytes >> 20), READS, WRITES,
              16e-9 * vectors * (READS + WRITES) / least);
}

struct Addresses {
  int a, b, c, d;
};

struct Tiles {
  int rows, across, down;  // rows of Y of a tile; tiles along n and along r
  bool along_n;            // which of them are neighbours in time
};

constexpr int64_t pitch = 25088 * 2;

template <int WIDTH>
__global__ void __launch_bounds__(512) copy(const char* x, char* y, Addresses of, Tiles tiles) {
  constexpr int lanes = WIDTH / 16, at_once = 512 / lanes, batch = 4;
  const int lane = threadIdx.x % lanes, first_row = threadIdx.x / lanes;
  const int all = of.a * of.d * tiles.across * tiles.down;
  for (int tile = blockIdx.x; tile < all; tile += gridDim.x) {
    const int plane = tile / (tiles.across * tiles.down), rest = tile % (tiles.across * tiles.down);
    const int n = tiles.along_n ? rest % tiles.across : rest / tiles.down;
    const int r = tiles.along_n ? rest / tiles.across : rest % tiles.down;
    const int64_t i = plane / of.d, j = plane % of.d, column = static_cast<int64_t>(n) * WIDTH + lane * 16;
    if (column + 16 > pitch) continue;
    const char* from = x + (i * of.c * of.d + j) * pitch + column;
    char* to = y + ((i * of.b + r * tiles.rows) * of.d + j) * pitch + column;
    uint4 sum = {1, 2, 3, 4};
    for (int k = first_row; k < of.c; k += at_once * batch) {
      uint4 read[batch] = {};
#pragma unroll
      for (int at = 0; at < batch; ++at)
        if (const int64_t row = k + at * at_once; row < of.c)
          read[at] = __ldcs(reinterpret_cast<const uint4*>(from + row * of.d * pitch));
#pragma unroll
      for (int at = 0; at < batch; ++at) mix_in(sum, read[at]);
    }
#pragma unroll 4
    for (int64_t row = first_row; row < tiles.rows; row += at_once)
      __stcs(reinterpret_cast<uint4*>(to + row * of.d * pitch), sum);
  }
}

template <int WIDTH>
float least_of_width(const char* x, char* y, const Addresses& of, int rows, int most_blocks) {
  float least = 1e9;
  for (const bool along_n : {false, true}) {
    const Tiles tiles = {rows, static_cast<int>((pitch + WIDTH - 1) / WIDTH), of.b / rows, along_n};
    const int all = of.a * of.d * tiles.across * tiles.down;
    for (const int blocks :
         {std::min(all, most_blocks / 4), std::min(all, most_blocks / 2), std::min(all, most_blocks)})
      least = std::min(least, least_milliseconds([&] { copy<WIDTH><<<blocks, 512>>>(x, y, of, tiles); }));
  }
  return least;
}

void measure_addresses(const char* x, char* y, const Addresses& of) {
  constexpr int one_for_each_tile = INT32_MAX;
  for (const int rows : {48, 64, 128, 192, 256, 384}) {
    if (of.b % rows != 0) continue;
    std::printf("%d,%d,%d,%d, %d rows of Y:", of.a, of.b, of.c, of.d, rows);
    for (const int blocks : {one_for_each_tile, most_at_once}) {
      const float least =
          std::min({least_of_width<256>(x, y, of, rows, blocks), least_of_width<512>(x, y, of, rows, blocks),
                    least_of_width<1024>(x, y, of, rows, blocks), least_of_width<2048>(x, y, of, rows, blocks)});
      const double bytes = static_cast<double>(of.a) * of.d * (of.b + of.c) * pitch;
      std::printf(" %.1f us (%.2f TB/s)%s", least * 1e3, bytes / least * 1e-9,
                  blocks == most_at_once ? " by blocks that stay\n" : ",");
    }
  }
}

}  // namespace

int main() {
  char *from = nullptr, *to = nullptr;
  check(cudaMalloc(&from, room));
  check(cudaMalloc(&to, room));
  check(cudaMemset(from, 1, room));
  check(cudaMemset(to, 1, room));
  for (const int64_t bytes : {int64_t{256} << 20, int64_t{1} << 30}) {
    measure_mixture<1, 0>(from, to, bytes);
    measure_mixture<4, 1>(from, to, bytes);
    measure_mixture<1, 1>(from, to, bytes);
    measure_mixture<1, 4>(from, to, bytes);
    measure_mixture<1, 8>(from, to, bytes);
    measure_mixture<0, 4>(from, to, bytes);
  }
  for (const Addresses& of : {Addresses{4, 128, 128, 4},
                              {8, 128, 128, 16},
                              {1, 96, 96, 24},
                              {1, 256, 64, 64},
                              {64, 256, 64, 1},
                              {1, 512, 128, 32},
                              {1, 384, 96, 48},
                              {8, 384, 96, 4},
                              {12, 192, 48, 4},
                              {48, 48, 192, 4}})
    measure_addresses(from, to, of);
  check(cudaDeviceSynchronize());
  return 0;
}
