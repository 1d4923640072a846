// Few planes of W as one matrix (gemm_spread.cuh, gemm_resident.cuh): how the numbers of W become those of the matrix,
// and sums of Y without its zeros.
#pragma once

#include <cstring>
#include <type_traits>

#include "../bytes.cuh"
#include "gemm_epilogue.cuh"

namespace ksmm::hopper {

// Rows of W are read so many k at a time.
constexpr int spread_vector = 8;

// Calls run(d) with a type whose value d is, and says what it returns, or `otherwise` for those d that no kernel is
// for.
template <class Result, class Run>
Result with_spread(int64_t d, Result otherwise, Run run) {
  switch (d) {
    case 2: return run(std::integral_constant<int, 2>());
    case 3: return run(std::integral_constant<int, 3>());
    case 4: return run(std::integral_constant<int, 4>());
    case 6: return run(std::integral_constant<int, 6>());
    case 8: return run(std::integral_constant<int, 8>());
    default: return otherwise;
  }
}

// Quotients by d are products with its inverse: exact where dividend and d are no larger than this.
constexpr int most_spread = 65535;
// Of a d above 1.
inline uint32_t inverse_of(uint32_t d) { return static_cast<uint32_t>((uint64_t{1} << 32) / d + 1); }

// Row and plane of feature r d + j.
struct Feature {
  int row, plane;
  __host__ __device__ Feature(const SpreadTask& task, int feature) {
    row = static_cast<int>(uint64_t{task.inverse_d} * static_cast<uint32_t>(feature) >> 32);
    plane = feature - row * task.d;
  }
};

__host__ __device__ inline const uint16_t* row_of_weight(const SpreadTask& task, int i, Feature feature) {
  return static_cast<const uint16_t*>(task.w) + i * task.w_i + feature.row * task.w_r + feature.plane * task.w_j;
}

// In which of the D words that two neighbouring k of a plane become each of them is, and in which half: what
// permute_bytes takes of them, and of zeros.
template <int D>
struct Selectors {
  uint32_t of[D];
  __host__ __device__ explicit Selectors(int plane) {
    constexpr uint32_t none = 0x44, first = 0x10, second = 0x32;
    const auto half = [&](int number) { return number == plane ? first : number == D + plane ? second : none; };
#pragma unroll
    for (int word = 0; word < D; ++word) of[word] = half(2 * word) | half(2 * word + 1) << 8;
  }
};

// What 16 bytes of a row of W, eight k, become: D chunks of 16 bytes.
template <int D>
__host__ __device__ inline uint4 spread_chunk(const uint4& numbers, const Selectors<D>& selectors, int chunk) {
  const uint32_t pairs[4] = {numbers.x, numbers.y, numbers.z, numbers.w};
  uint32_t words[4];
#pragma unroll
  for (int at = 0; at < 4; ++at) {
    const int word = 4 * chunk + at;
    words[at] = permute_bytes(pairs[word / D], 0, selectors.of[word % D]);
  }
  return {words[0], words[1], words[2], words[3]};
}

// Where a chunk of a row of the matrix is, in bytes: stages of 64 numbers, each with rows of 128 bytes, swizzled as the
// copy engine does.
template <class Tile>
__host__ __device__ int place_of_chunk(int column, int chunk) {
  return chunk / 8 * Tile::weight_bytes + column * 128 + (chunk ^ column) % 8 * 16;
}

__host__ __device__ inline uint4 read_vector(const uint16_t* from) {
#if defined(__CUDA_ARCH__)
  return __ldg(reinterpret_cast<const uint4*>(from));
#else
  uint4 numbers;
  std::memcpy(&numbers, from, sizeof numbers);
  return numbers;
#endif
}

// What one of THREADS threads makes of the matrix of i and the columns from r0 on. They take ROWS columns at a time, a
// warp eight neighbours, whose chunks lie in different banks, by four neighbouring vectors of W: of fewer vectors of
// more rows a warp would wait a cycle for each row. Each reads W for all its columns, PARTS times, before it writes.
template <class Tile, int D, int THREADS, int ROWS, int PARTS>
__host__ __device__ void spread_weight(const SpreadTask& task, int r0, int i, int thread, unsigned char* weight) {
  static_assert(Tile::columns % ROWS == 0 && THREADS % (4 * ROWS) == 0 && ROWS % 8 == 0, "or some would be left over");
  constexpr int count = Tile::columns / ROWS, across = THREADS / ROWS;
  const int row = thread % 8 + thread / 32 % (ROWS / 8) * 8, chunks = 8 * task.k_steps;
  for (int first = thread / 8 % 4 + thread / (4 * ROWS) * 4; first * D < chunks; first += across * PARTS) {
    uint4 numbers[PARTS][count];
#pragma unroll
    for (int of = 0; of < PARTS; ++of)
#pragma unroll
      for (int at = 0; at < count; ++at) {  // all on their way at once
        const int column = r0 + row + ROWS * at, k = spread_vector * (first + across * of);
        const uint16_t* from = row_of_weight(task, i, Feature(task, column)) + k;
        numbers[of][at] = column < task.b && k < task.c ? read_vector(from) : uint4{};
      }
#pragma unroll
    for (int of = 0; of < PARTS; ++of)
#pragma unroll
      for (int at = 0; at < count; ++at) {
        const int column = row + ROWS * at, before = (first + across * of) * D;
        const Selectors<D> selectors(Feature(task, r0 + column).plane);
#pragma unroll
        for (int chunk = 0; chunk < D; ++chunk)
          if (before + chunk < chunks)
            *reinterpret_cast<uint4*>(weight + place_of_chunk<Tile>(column, before + chunk)) =
                spread_chunk<D>(numbers[of][at], selectors, chunk);
      }
  }
}

// A sum of Y without the zeros.
template <class T>
__device__ float sum_of_plane(const SpreadTask& task, int n, int i, int column) {
  const Feature feature(task, column);
  const uint16_t* row = row_of_weight(task, i, feature);
  const uint16_t* x = static_cast<const uint16_t*>(task.x_rows) + n * task.x_stride +
                      static_cast<int64_t>(i) * task.c * task.d + feature.plane;
  const int64_t of_bias = static_cast<int64_t>(i) * task.b + column;
  float sum = task.bias == nullptr ? 0 : to_float<T>(static_cast<const uint16_t*>(task.bias)[of_bias]);
  for (int k = 0; k < task.c; ++k) sum += to_float<T>(x[static_cast<int64_t>(k) * task.d]) * to_float<T>(row[k]);
  return sum;
}

// Whether there is a NaN. The sum of all times zero is NaN where one is NaN or infinite, and much sooner at hand.
template <int COUNT>
__device__ bool any_is_nan(const float (&sums)[COUNT]) {
  float zeros[4] = {};  // four chains, each of which waits for itself
#pragma unroll
  for (int at = 0; at < COUNT; ++at) zeros[at % 4] = fmaf(sums[at], 0, zeros[at % 4]);
  bool any = isnan(zeros[0] + zeros[1] + zeros[2] + zeros[3]);
  if (any) {
    any = false;
#pragma unroll
    for (int at = 0; at < COUNT; ++at) any |= isnan(sums[at]);
  }
  return any;
}

}  // namespace ksmm::hopper
