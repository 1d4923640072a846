// The gemm kernel for small products with d > 1 in batch_first and c a multiple of 8: the planes of an i as one matrix.
//
// With features k d + j of X and r d + j of Y, the product with W[i, r, k, j] is one with a matrix of b d by c d that
// is zero where the two j differ. X and Y are then read and written as rows, as for d = 1, and nothing is regrouped;
// the matrix units do d times the work, which takes less time than memory does while b d and c d are below about 340.
// The matrix is made in shared memory by the block that multiplies by it; in device memory W stays as it is.
#pragma once

#include <type_traits>

#include "gemm_single.cuh"

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
// __byte_perm takes of them, and of zeros.
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

__host__ __device__ inline uint32_t select_bytes(uint32_t pair, uint32_t selector) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(pair, 0, selector);
#else
  uint32_t word = 0;
  for (int byte = 0; byte < 4; ++byte)
    word |= static_cast<uint32_t>(uint64_t{pair} >> 8 * (selector >> 4 * byte & 7) & 0xff) << 8 * byte;
  return word;
#endif
}

// What 16 bytes of a row of W, eight k, become: D chunks of 16 bytes.
template <int D>
__host__ __device__ inline uint4 spread_chunk(const uint4& numbers, const Selectors<D>& selectors, int chunk) {
  const uint32_t pairs[4] = {numbers.x, numbers.y, numbers.z, numbers.w};
  uint32_t words[4];
#pragma unroll
  for (int at = 0; at < 4; ++at) {
    const int word = 4 * chunk + at;
    words[at] = select_bytes(pairs[word / D], selectors.of[word % D]);
  }
  return {words[0], words[1], words[2], words[3]};
}

// Where a chunk of a row of the matrix is, in bytes: stages of 64 numbers, each with rows of 128 bytes, swizzled as the
// copy engine does.
template <class Tile>
__host__ __device__ int place_of_chunk(int column, int chunk) {
  return chunk / 8 * Tile::weight_bytes + column * 128 + (chunk ^ column) % 8 * 16;
}

// All of the matrix that the tile needs. 16 threads have neighbouring rows, whose chunks lie in different banks.
template <class Tile, int D>
__device__ void spread_weight(const SpreadTask& task, const SinglePlace<Tile>& place, unsigned char* weight) {
  constexpr int rows = 16, across = Tile::threads / rows, count = Tile::columns / rows;
  const int row = static_cast<int>(threadIdx.x) % rows, chunks = 8 * task.k_steps;
  for (int part = static_cast<int>(threadIdx.x) / rows; part * D < chunks; part += across) {
    uint4 numbers[count];
#pragma unroll
    for (int at = 0; at < count; ++at) {  // all on their way at once
      const int column = place.r + row + rows * at, k = spread_vector * part;
      const uint16_t* from = row_of_weight(task, place.i, Feature(task, column)) + k;
      numbers[at] = column < task.b && k < task.c ? __ldg(reinterpret_cast<const uint4*>(from)) : uint4{};
    }
#pragma unroll
    for (int at = 0; at < count; ++at) {
      const int column = row + rows * at;
      const Selectors<D> selectors(Feature(task, place.r + column).plane);
#pragma unroll
      for (int chunk = 0; chunk < D; ++chunk)
        if (part * D + chunk < chunks)
          *reinterpret_cast<uint4*>(weight + place_of_chunk<Tile>(column, part * D + chunk)) =
              spread_chunk<D>(numbers[at], selectors, chunk);
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

// Zero times infinity or NaN is NaN, also in sums of planes that have neither. Each NaN in the boxes is computed anew.
template <class T, class Tile>
__device__ void mend_boxes(const SpreadTask& task, const SinglePlace<Tile>& place, unsigned char* boxes) {
  constexpr int numbers = 64 * 64;  // of a box
#pragma unroll 1
  for (int at = threadIdx.x; at < Tile::boxes * numbers; at += Tile::threads) {
    const int box = at / numbers, line = at / 64 % 64, along = at % 64;
    const int n = place.n + Tile::n_of_box(box) + line, r = place.r + Tile::r_of_box(box) + along;
    const int byte = line * 128 + (along / 8 ^ line % 8) * 16 + along % 8 * 2;
    auto* const number = reinterpret_cast<uint16_t*>(boxes + box * gemm_box + byte);
    if (n >= task.rows || r >= task.b || r >= place.r + Tile::columns || !isnan(to_float<T>(*number))) continue;
    const float sum = sum_of_plane<T>(task, n, place.i, r);
    *number = static_cast<uint16_t>(pack_pair<T>(sum, sum));
  }
}

template <class Tile>
__device__ bool any_is_nan(const float (&sums)[Tile::blocks][Tile::columns / 2]) {
  bool any = false;
#pragma unroll
  for (int block = 0; block < Tile::blocks; ++block)
#pragma unroll
    for (int at = 0; at < Tile::columns / 2; ++at) any |= isnan(sums[block][at]);
  return any;
}

template <class T, class Tile, int D>
__global__ __launch_bounds__(Tile::threads) void spread_kernel(const __grid_constant__ SpreadTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char unaligned[];
  const SingleMemory<Tile> memory(task, unaligned);
  const SinglePlace<Tile> place(task, static_cast<int>(blockIdx.x));
  if (threadIdx.x == 32) prefetch_map(task.x), prefetch_map(task.y);
  begin_single(task, memory);
  if (threadIdx.x == 0)
    for (int step = 0; step < task.k_steps; ++step) {
      memory.shared->full[step].arrive_expecting(Tile::blocks * gemm_box);
      fetch_x<Tile, false>(task, memory, place, step);
    }
  __syncwarp();
  BiasFetch<Tile::columns> fetch;
  fetch.read(task, place.r, place.i, place.j);
  spread_weight<Tile, D>(task, place, memory.weight);
  fetch.write(task, memory.shared->bias, 1);
  fence_for_engines();
  __syncthreads();
  float sums[Tile::blocks][Tile::columns / 2];
  multiply_single<T, Tile, false>(task, memory, sums);
  const bool mend = __syncthreads_or(any_is_nan<Tile>(sums));  // and all have read X
  put_single<T, Tile, false>(memory.x, sums);
  if (mend) {
    __syncthreads();
    mend_boxes<T>(task, place, memory.x);
  }
  store_single<Tile, false>(task, place, memory.x);
#endif
}

}  // namespace ksmm::hopper
