// The kernel for few columns in batch_last whose rows begin anywhere (16-bit types): blocks of one tile each.
//
// Where gemm's blocks of one tile (gemm_single.cuh) have boxes, threads copy X themselves, 16 bytes at a time from the
// multiple of 16 bytes before a row's first n on, all at once; W comes by the copy engine. From there on X goes through
// registers as in shifted_kernel.cuh. Sums leave through shared memory, so that a warp writes words of a row of Y side
// by side, wherever it begins.
#pragma once

#include "../matrix_unit.cuh"
#include "shifted_kernel.cuh"

namespace ksmm::hopper {

// A warpgroup with 64 n by COLUMNS r.
template <int COLUMNS_>
struct ShiftedSingleTile {
  static constexpr int columns = COLUMNS_;  // r
  static constexpr int rows = gemm_rows, step = rows, strips = 1, strip = rows;
  static constexpr int consumers = 128, threads = consumers;
  static constexpr int steps = 2;    // of 16 k that are multiplied at a time
  static constexpr int vectors = 9;  // of 16 bytes, which have the n of a row, wherever it begins
  static constexpr int weight_bytes = columns * 128;
  static constexpr int slack = 2048;  // the barrier, the bias, and the alignment of the swizzle
  static_assert(columns % 16 == 0 && columns <= gemm_step, "Y comes into the place of X, which has at least 64 k");

  // Bytes from row to row, of X and of Y: lanes that read, or write, rows 2 t meet in different banks.
  __host__ __device__ static constexpr int pitch(int) { return 16 * vectors; }
  __host__ __device__ static constexpr int x_bytes(int k_steps) { return k_steps * gemm_step * pitch(0); }
  static constexpr int shared_bytes(int k_steps) { return slack + x_bytes(k_steps) + k_steps * weight_bytes; }
  static_assert(x_bytes(1) % 1024 == 0, "W follows X, and its swizzle repeats after 1,024 bytes");
};

template <class Tile>
struct ShiftedSingleMemory {
  unsigned char *x, *weight;
  Barrier* full;
  uint16_t* bias;

  __device__ ShiftedSingleMemory(const ShiftedTask& task, unsigned char* unaligned) {
    x = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
    weight = x + Tile::x_bytes(task.k_steps);
    full = reinterpret_cast<Barrier*>(weight + task.k_steps * Tile::weight_bytes);
    bias = reinterpret_cast<uint16_t*>(full + 1);
  }
};

// Where 16 bytes of X come from, how many of them are of their row (or before it), and where they go.
struct ShiftedCopy {
  const unsigned char* from;
  int valid;
  int to;

  template <class Tile>
  __host__ __device__ static ShiftedCopy of(Tile, const ShiftedTask& task, const ShiftedPlace& place, int index) {
    const ShiftedRows& rows = task.rows_of_x;
    const int k = index / Tile::vectors, vector = index - k * Tile::vectors;
    const uint16_t* row = place.row(task, rows, k);
    const uintptr_t from = reinterpret_cast<uintptr_t>(row + place.n) / 16 * 16 + 16 * vector;
    const int64_t left = reinterpret_cast<uintptr_t>(row + task.batch) - static_cast<int64_t>(from);
    const int valid = k < rows.features && left > 0 ? static_cast<int>(left < 16 ? left : 16) : 0;
    const uintptr_t anywhere = reinterpret_cast<uintptr_t>(rows.data) / 16 * 16;
    return {reinterpret_cast<const unsigned char*>(valid > 0 ? from : anywhere), valid,
            k * Tile::pitch(0) + 16 * vector};
  }
};

// What a lane writes of a row of Y: numbers first and first + 1, of which those below 0 and beyond the row are left
// out. Where the row begins between two words, so do the lanes, and the first one has what is left, too.
__host__ __device__ inline int first_of_lane(int lane, int piece, bool between) {
  return piece == 0 || (between && lane == 0) ? 2 * (lane + 32 * piece) - static_cast<int>(between) : gemm_rows;
}

template <class Tile>
__device__ void fetch_shifted_single(const ShiftedTask& task, const ShiftedSingleMemory<Tile>& memory,
                                     const ShiftedPlace& place) {
  if (threadIdx.x == 0) {
    memory.full->arrive_expecting(task.k_steps * Tile::weight_bytes);
    for (int step = 0; step < task.k_steps; ++step)
      load(memory.weight + step * Tile::weight_bytes, task.weight, *memory.full, Keep::last_out, step * gemm_step,
           place.r, place.j, place.i);
  }
  __syncwarp();
  constexpr int multiple = 16 * Tile::steps;  // of k: what is multiplied beyond c is zero
  const int copies = (task.rows_of_x.features + multiple - 1) / multiple * multiple * Tile::vectors;
#pragma unroll 4
  for (int index = threadIdx.x; index < copies; index += Tile::threads) {
    const ShiftedCopy copy = ShiftedCopy::of(Tile(), task, place, index);
    copy_bytes<16>(memory.x + copy.to, copy.from, copy.valid);
  }
  end_of_copies();
}

template <class T, class Tile>
__device__ void multiply_shifted_single(const ShiftedTask& task, const ShiftedSingleMemory<Tile>& memory,
                                        const ShiftedPlace& place, float (&sums)[Tile::columns / 2]) {
  const ShiftedRows& rows = task.rows_of_x;
  ShiftedOperands<Tile> operands(0, threadIdx.x);
  operands.set_shifts(place.shift(task, rows, 0), static_cast<int>(task.groups_j * rows.stride & 7), threadIdx.x);
  start_sums<T, Tile::columns>(sums, task.bias == nullptr ? nullptr : memory.bias);
  wait_for_copies<0>();
  __syncthreads();
  memory.full->wait(0);
  int k = 0;
#pragma unroll 1
  do {  // once at least: a loop that may be left out makes the compiler serialise the products
    multiply_steps<Tile::steps, T, Tile>(
        sums, operands, shared_address(memory.x + k / gemm_step * gemm_step * Tile::pitch(0)),
        shared_address(memory.weight + k / gemm_step * Tile::weight_bytes), k % gemm_step / 16);
    k += 16 * Tile::steps;
  } while (k < rows.features);
  fence_sums<Tile::columns>(sums);
}

// Brings the sums to shared memory: r by r, 64 n each.
template <class T, class Tile>
__device__ void put_shifted_single(unsigned char* y, const float (&sums)[Tile::columns / 2]) {
  const int n = shifted_n(threadIdx.x);
#pragma unroll
  for (int at = 0; at < Tile::columns / 4; ++at) {
    const int r = at / 2 * 8 + threadIdx.x % 4 * 2 + at % 2;
    *reinterpret_cast<uint32_t*>(y + r * Tile::pitch(0) + 2 * n) =
        pack_pair<T>(sums[at / 2 * 4 + at % 2], sums[at / 2 * 4 + 2 + at % 2]);
  }
}

// A warp's lanes write a row of Y, of which `count` numbers are the tile's.
template <class Tile>
__device__ void write_row(uint16_t* to, const unsigned char* from, int count) {
  const int lane = threadIdx.x % 32;
  const bool between = reinterpret_cast<uintptr_t>(to) % 4 != 0;
#pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
    const int first = first_of_lane(lane, piece, between);
    if (first >= count) continue;
    const auto number = [&](int n) { return reinterpret_cast<const uint16_t*>(from)[n]; };
    if (first >= 0 && first + 1 < count)
      *reinterpret_cast<uint32_t*>(to + first) = number(first) | static_cast<uint32_t>(number(first + 1)) << 16;
    else
      to[max(first, 0)] = number(max(first, 0));
  }
}

template <class T, class Tile>
__global__ __launch_bounds__(Tile::threads) void shifted_single_kernel(const __grid_constant__ ShiftedTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char unaligned[];
  const ShiftedSingleMemory<Tile> memory(task, unaligned);
  const ShiftedPlace place(task, static_cast<int>(blockIdx.x), Tile::columns, Tile::step);
  if (threadIdx.x == 0) memory.full->init(1), publish_barriers();
  if (threadIdx.x == 32) prefetch_map(task.weight);
  __syncthreads();
  wait_for_kernels_before();
  fetch_shifted_single(task, memory, place);
  BiasFetch<Tile::columns> fetch;
  fetch.read(task, place.r, place.i, place.j);
  fetch.write(task, memory.bias, 1);
  float sums[Tile::columns / 2];
  multiply_shifted_single<T>(task, memory, place, sums);
  __syncthreads();  // all have read X
  put_shifted_single<T, Tile>(memory.x, sums);
  __syncthreads();
  const int count = static_cast<int>(min(static_cast<int64_t>(Tile::rows), task.batch - place.n));
  for (int r = threadIdx.x / 32; r < min(Tile::columns, task.b - place.r); r += Tile::threads / 32)
    write_row<Tile>(place.row(task, task.rows_of_y, place.r + r) + place.n, memory.x + r * Tile::pitch(0), count);
#endif
}

}  // namespace ksmm::hopper
