// The kernel for few columns in batch_last whose rows begin anywhere (16-bit types): blocks of one tile each.
//
// All of X and W that a tile needs is asked for at once, as in gemm_single.cuh; each warp asks for its classes of rows
// (shifted_tile.cuh). From there on X goes through registers as in shifted_kernel.cuh. Sums leave through shared
// memory, so that a warp writes words of a row of Y side by side, wherever it begins.
//
// A warp executes most of this once, and each instruction then takes some four cycles: so loops are rolled, and all
// that does not depend on X is computed while the kernel waits for those before it (docs/designs.md, "What is executed
// once").
#pragma once

#include "shifted_kernel.cuh"
#include "shifted_single_store.cuh"

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

// Boxes of X that a thread of each warp asks for: those of every few classes of rows.
template <class Tile>
struct ShiftedBoxes {
  static constexpr int warps = Tile::threads / 32, most = (8 + warps - 1) / warps;
  int count, column[most], row[most], offset[most];  // offset in a stage

  __host__ __device__ ShiftedBoxes(const ShiftedTask& task, const ShiftedPlace& place, int warp) {
    const ShiftedRows& rows = task.rows_of_x;
    count = 0;
#pragma unroll
    for (int at = 0; at < most; ++at) {
      const int q = warp + at * warps, start = q * task.groups_j + place.j;
      column[at] = rows.column(start) / 8 * 8 + place.n - moved(q, rows.class_bits);
      row[at] = start >> rows.period_bits;
      offset[at] = q * (gemm_step >> rows.class_bits) * Tile::pitch(rows.class_bits);
      count += q < 1 << rows.class_bits ? 1 : 0;
    }
  }
};

// A thread of each warp: its boxes of all of X, and that of the last warp W.
template <class Tile>
__device__ void fetch_shifted_single(const ShiftedTask& task, ShiftedSingleShared<Tile>& shared, unsigned char* stages,
                                     const ShiftedPlace& place, const ShiftedBoxes<Tile>& boxes, int warp) {
  const int class_bits = task.rows_of_x.class_bits, bytes = Tile::stage_bytes(class_bits);
  unsigned char* stage = stages;
#pragma unroll 1
  for (int step = 0; step < task.k_steps; ++step, stage += bytes) {
    Barrier& full = shared.full[step];
    if (warp == boxes.warps - 1)
      load(stage + bytes - Tile::weight_bytes, task.weight, full, Keep::last_out, step * gemm_step, place.r, place.j,
           place.i);
#pragma unroll
    for (int at = 0; at < boxes.most; ++at)
      if (at < boxes.count)
        load(stage + boxes.offset[at], task.x, full, Keep::normal, boxes.column[at], step * gemm_step >> class_bits,
             boxes.row[at], place.i);
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
__device__ void multiply_shifted_single(ShiftedSingleShared<Tile>& shared, const ShiftedOperands<Tile>& operands,
                                        uint32_t x, uint32_t weight, int bytes, int k_steps,
                                        float (&sums)[Tile::columns / 2]) {
  ShiftedHalf<Tile> first, second;
  Barrier* full = shared.full;
  full->wait(0);
  first.build(operands, x, 0);
#pragma unroll 1
  while (true) {
    first.template begin<T>(sums, weight, 0);
    second.build(operands, x, 1);
    first.finish();
    second.template begin<T>(sums, weight, 1);
    if (--k_steps == 0) break;
    x += bytes, weight += bytes;
    (++full)->wait(0);
    first.build(operands, x, 0);
    second.finish();
  }
  wait_for_products<0>();
  fence_sums<Tile::columns>(sums);
}

template <class T, class Tile>
__global__ __launch_bounds__(Tile::threads) void shifted_single_kernel(const __grid_constant__ ShiftedTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char unaligned[];
  __shared__ ShiftedSingleShared<Tile> shared;
  unsigned char* const stages = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  const ShiftedPlace place(task, static_cast<int>(blockIdx.x), Tile::block_columns, Tile::step);
  const ShiftedRows& rows = task.rows_of_x;
  const int bytes = Tile::stage_bytes(rows.class_bits), warpgroup = warpgroup_of_block();
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  if (threadIdx.x < task.k_steps) shared.full[threadIdx.x].init(1), publish_barriers();
  if (threadIdx.x == 32) prefetch_map(task.x), prefetch_map(task.weight);
  const ShiftedBoxes<Tile> boxes(task, place, warp);
  ShiftedOperands<Tile> operands(rows.class_bits, threadIdx.x % 128);
  operands.set_shifts(place.shift(task, rows, 0), static_cast<int>(task.groups_j * rows.stride & 7), threadIdx.x);
  ShiftedPlace own = place;  // of the warpgroup
  own.r += warpgroup * Tile::columns;
  ShiftedWriter<Tile> writer(task, own);
  operands.fence(), writer.fence();
  __syncthreads();
  if (threadIdx.x < task.k_steps) shared.full[threadIdx.x].arrive_expecting(bytes);
  wait_for_kernels_before();
  if (threadIdx.x % 32 == 0) fetch_shifted_single(task, shared, stages, place, boxes, warp);
  __syncwarp();
  BiasFetch<Tile::columns> fetch;
  fetch.read(task, own.r, own.i, own.j);
  fetch.write(task, shared.bias[warpgroup], 1 + warpgroup);
  float sums[Tile::columns / 2];
  start_sums<T, Tile::columns>(sums, task.bias == nullptr ? nullptr : shared.bias[warpgroup]);
  const uint32_t x = shared_address(stages), weight = x + bytes - Tile::weight_bytes + warpgroup * Tile::columns * 128;
  multiply_shifted_single<T>(shared, operands, x, weight, bytes, task.k_steps, sums);
  __syncthreads();  // all have read X and W
  unsigned char* const y = stages + warpgroup * Tile::columns * Tile::y_pitch;
  put_shifted_single<T, Tile>(y, sums);
  synchronize(1 + warpgroup, 128);
  writer.write(y);
#endif
}

}  // namespace ksmm::hopper
