// The kernel for few columns in batch_last whose rows begin anywhere (16-bit types): blocks of one tile each.
//
// All of X and W that a tile needs is asked for at once, as in gemm_single.cuh; each warp asks for its classes of rows
// (shifted_tile.cuh). From there on X goes through registers as in shifted_kernel.cuh. Sums leave through shared
// memory, so that a warp writes words of a row of Y side by side, wherever it begins.
#pragma once

#include "shifted_kernel.cuh"

namespace ksmm::hopper {

// 64 n by 64 r for each warpgroup; they share X.
template <int WARPGROUPS_>
struct ShiftedSingleTile {
  static constexpr int warpgroups = WARPGROUPS_;
  static constexpr int columns = 64, block_columns = columns * warpgroups;  // r
  static constexpr int rows = gemm_rows, step = rows, strips = 1, strip = rows;
  static constexpr int consumers = 128, warps = 4;  // of a warpgroup, each of which takes all of X
  static constexpr int threads = consumers * warpgroups;
  static constexpr int weight_bytes = block_columns * 128;
  static constexpr int y_pitch = 144;  // bytes from r to r: lanes that write rows 2 t meet in different banks
  static constexpr int most_steps = 16;
  static constexpr int slack = 2048;  // barriers, the bias, and the alignment of the swizzle

  __host__ __device__ static constexpr int pitch(int class_bits) { return shifted_pitch(strip, class_bits); }
  __host__ __device__ static constexpr int stage_bytes(int class_bits) {
    return gemm_step * pitch(class_bits) + weight_bytes;
  }
  static constexpr int shared_bytes(int class_bits, int k_steps) { return slack + k_steps * stage_bytes(class_bits); }
  static_assert(block_columns <= 256 && block_columns * y_pitch <= stage_bytes(0),
                "Y comes into the place of the first X and W");
  static_assert(stage_bytes(0) % 1024 == 0 && stage_bytes(1) % 1024 == 0, "the swizzle repeats after 1,024 bytes");
  static_assert(stage_bytes(2) % 1024 == 0 && stage_bytes(3) % 1024 == 0, "the swizzle repeats after 1,024 bytes");
};

template <class Tile>
struct ShiftedSingleShared {
  Barrier full[Tile::most_steps];
  uint16_t bias[Tile::warpgroups][Tile::columns];
};

// A thread of each warp: some of the classes of rows of all of X, and the first one W.
template <class Tile>
__device__ void fetch_shifted_single(const ShiftedTask& task, ShiftedSingleShared<Tile>& shared, unsigned char* stages,
                                     const ShiftedPlace& place, int warp) {
  const ShiftedRows& rows = task.rows_of_x;
  const int classes = 1 << rows.class_bits, pitch = Tile::pitch(rows.class_bits), box = gemm_step >> rows.class_bits;
  const int bytes = Tile::stage_bytes(rows.class_bits);
  for (int step = 0; step < task.k_steps; ++step) {
    unsigned char* stage = stages + step * bytes;
    Barrier& full = shared.full[step];
    if (warp == 0) {
      full.arrive_expecting(bytes);
      load(stage + gemm_step * pitch, task.weight, full, Keep::last_out, step * gemm_step, place.r, place.j, place.i);
    }
    for (int q = warp; q < classes; q += Tile::threads / 32) {
      const int start = q * task.groups_j + place.j;
      load(stage + q * box * pitch, task.x, full, Keep::normal,
           rows.column(start) / 8 * 8 + place.n - moved(q, rows.class_bits), step * gemm_step >> rows.class_bits,
           start >> rows.period_bits, place.i);
    }
  }
}

// The operands of half a stage.
template <class Tile>
struct ShiftedHalf {
  static constexpr int steps = gemm_step / 16 / 2;
  uint32_t operand[steps][4];

  __device__ void build(const ShiftedOperands<Tile>& operands, uint32_t x, int half) {
#pragma unroll
    for (int step = 0; step < steps; ++step) operands.build(operand[step], x, half * steps + step);
  }
  template <class T>
  __device__ void begin(float (&sums)[Tile::columns / 2], uint32_t weight, int half) const {
    begin_steps<steps, T, Tile>(sums, operand, weight, half * steps);
  }
  // Waits for what was begun, after which they may be built anew.
  __device__ void finish() {
    wait_for_products<0>();
#pragma unroll
    for (int at = 0; at < 4 * steps; ++at) fence_register(operand[at / 4][at % 4]);
  }
};

// Half a stage is multiplied while the operands of the next half are built. Beyond c both X and W are zero.
template <class T, class Tile>
__device__ void multiply_shifted_single(const ShiftedTask& task, ShiftedSingleShared<Tile>& shared,
                                        const unsigned char* stages, const ShiftedPlace& place,
                                        float (&sums)[Tile::columns / 2]) {
  const ShiftedRows& rows = task.rows_of_x;
  const int bytes = Tile::stage_bytes(rows.class_bits), warpgroup = warpgroup_of_block();
  const int to_weight = bytes - Tile::weight_bytes + warpgroup * Tile::columns * 128;
  ShiftedOperands<Tile> operands(rows.class_bits, threadIdx.x % 128);
  operands.set_shifts(place.shift(task, rows, 0), static_cast<int>(task.groups_j * rows.stride & 7), threadIdx.x);
  start_sums<T, Tile::columns>(sums, task.bias == nullptr ? nullptr : shared.bias[warpgroup]);
  uint32_t x = shared_address(stages);
  ShiftedHalf<Tile> first, second;
  shared.full[0].wait(0);
  first.build(operands, x, 0);
  int step = 0;
#pragma unroll 1
  do {  // once at least: a loop that may be left out makes the compiler serialise the products
    const uint32_t weight = x + to_weight;
    first.template begin<T>(sums, weight, 0);
    second.build(operands, x, 1);
    first.finish();
    second.template begin<T>(sums, weight, 1);
    const int next = min(step + 1, task.k_steps - 1);  // the last stage is built twice
    shared.full[next].wait(0);
    x = shared_address(stages + next * bytes);
    first.build(operands, x, 0);
    second.finish();
  } while (++step < task.k_steps);
  fence_sums<Tile::columns>(sums);
}

// Brings the sums to shared memory: r by r, 64 n each.
template <class T, class Tile>
__device__ void put_shifted_single(unsigned char* y, const float (&sums)[Tile::columns / 2]) {
  const int n = shifted_n(threadIdx.x % 128);
#pragma unroll
  for (int at = 0; at < Tile::columns / 4; ++at) {
    const int r = at / 2 * 8 + threadIdx.x % 4 * 2 + at % 2;
    *reinterpret_cast<uint32_t*>(y + r * Tile::y_pitch + 2 * n) =
        pack_pair<T>(sums[at / 2 * 4 + at % 2], sums[at / 2 * 4 + 2 + at % 2]);
  }
}

// What a lane writes of a row of Y: numbers first and first + 1, of which those below 0 and beyond the row are left
// out. Where the row begins between two words, so do the lanes, and the first of them has the last number, too.
__host__ __device__ inline int first_of_lane(int lane, int piece, bool between) {
  return piece == 0 || (between && lane == 0) ? 2 * (lane + 32 * piece) - static_cast<int>(between) : gemm_rows;
}

// Numbers n and n + 1 of a row in shared memory, where they are.
__device__ inline uint32_t pair_of(const unsigned char* row, int n) {
  const auto number = [&](int at) { return reinterpret_cast<const uint16_t*>(row)[min(max(at, 0), gemm_rows - 1)]; };
  return number(n) | static_cast<uint32_t>(number(n + 1)) << 16;
}

__device__ inline void write_pair(uint16_t* row, int n, int count, uint32_t pair) {
  if (n >= 0 && n + 1 < count) {
    *reinterpret_cast<uint32_t*>(row + n) = pair;
  } else {
    if (n >= 0 && n < count) row[n] = static_cast<uint16_t>(pair);
    if (n + 1 == 0 && count > 0) row[0] = static_cast<uint16_t>(pair >> 16);
  }
}

// Each warp writes every fourth row of Y that its warpgroup has: all are read before the first is written.
template <class Tile>
__device__ void write_shifted_single(const ShiftedTask& task, const ShiftedPlace& place, const unsigned char* y) {
  constexpr int rows = Tile::columns / Tile::warps;
  const int warp = threadIdx.x / 32 % Tile::warps, lane = threadIdx.x % 32;
  const int count = static_cast<int>(min(static_cast<int64_t>(Tile::rows), task.batch - place.n));
  const int64_t step = static_cast<int64_t>(task.groups_j) * task.rows_of_y.stride;  // from r to r + 1
  uint16_t* const first = place.row(task, task.rows_of_y, place.r + warp) + place.n;
  const auto row_of = [&](int at) { return first + at * Tile::warps * step; };
  const auto between = [&](int at) { return reinterpret_cast<uintptr_t>(row_of(at)) % 4 != 0; };
  uint32_t pairs[rows];
#pragma unroll
  for (int at = 0; at < rows; ++at)
    pairs[at] = pair_of(y + (at * Tile::warps + warp) * Tile::y_pitch, first_of_lane(lane, 0, between(at)));
#pragma unroll
  for (int at = 0; at < rows; ++at) {
    if (place.r + at * Tile::warps + warp >= task.b) break;
    write_pair(row_of(at), first_of_lane(lane, 0, between(at)), count, pairs[at]);
    const int last = first_of_lane(lane, 1, between(at));
    if (last < count)
      row_of(at)[last] = static_cast<uint16_t>(pair_of(y + (at * Tile::warps + warp) * Tile::y_pitch, last));
  }
}

template <class T, class Tile>
__global__ __launch_bounds__(Tile::threads) void shifted_single_kernel(const __grid_constant__ ShiftedTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char unaligned[];
  __shared__ ShiftedSingleShared<Tile> shared;
  unsigned char* const stages = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  ShiftedPlace place(task, static_cast<int>(blockIdx.x), Tile::block_columns, Tile::step);
  if (threadIdx.x < task.k_steps) shared.full[threadIdx.x].init(1), publish_barriers();
  if (threadIdx.x == 32) prefetch_map(task.x), prefetch_map(task.weight);
  __syncthreads();
  wait_for_kernels_before();
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0), warpgroup = warpgroup_of_block();
  BiasFetch<Tile::columns> fetch;
  fetch.read(task, place.r + warpgroup * Tile::columns, place.i, place.j);
  if (threadIdx.x % 32 == 0) fetch_shifted_single(task, shared, stages, place, warp);
  __syncwarp();
  place.r += warpgroup * Tile::columns;
  fetch.write(task, shared.bias[warpgroup], 1 + warpgroup);
  float sums[Tile::columns / 2];
  multiply_shifted_single<T>(task, shared, stages, place, sums);
  __syncthreads();  // all have read X and W
  unsigned char* const y = stages + warpgroup * Tile::columns * Tile::y_pitch;
  put_shifted_single<T, Tile>(y, sums);
  synchronize(1 + warpgroup, 128);
  write_shifted_single<Tile>(task, place, y);
#endif
}

}  // namespace ksmm::hopper
