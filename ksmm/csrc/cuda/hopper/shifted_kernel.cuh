// The kernel for products in batch_last whose rows begin anywhere (16-bit types): X and Y cross device memory once.
//
// A warp has boxes of X copied, those of a class of rows (shifted_tile.cuh) together, and W as in gemm_streamed.cuh.
// Warpgroups take X from there into registers, where pairs of k become operands of the matrix units: row g of an
// operand is n = 2g, row g + 8 is n = 2g + 1, so that a thread reads two numbers at a time, and has the sums of two
// neighbours.
#pragma once

#include "../bytes.cuh"
#include "overlap.cuh"
#include "shifted_outlet.cuh"

namespace ksmm::hopper {

template <class Tile>
struct ShiftedShared {
  Barrier full[Tile::most_stages], empty[Tile::most_stages];
  ShiftedParts<Tile> parts;
  uint16_t bias[Tile::warpgroups][Tile::columns];
};

// A thread of each warp that fetches: every second class of rows.
template <class Tile>
__device__ void feed_shifted(const ShiftedTask& task, ShiftedShared<Tile>& shared, unsigned char* stages, int helper) {
  const ShiftedRows& rows = task.rows_of_x;
  const int classes = 1 << rows.class_bits, pitch = Tile::pitch(rows.class_bits), box = gemm_step >> rows.class_bits;
  const int bytes = Tile::stage_bytes(rows.class_bits), own_classes = (classes - helper + 1) / Tile::helpers;
  const int own_bytes = own_classes * Tile::strips * box * pitch + (helper == 1 ? Tile::weight_bytes : 0);
  VariableRing ring{task.stages};
  for (int tile = blockIdx.x; tile < task.tiles; tile += gridDim.x) {
    const ShiftedPlace place(task, tile, Tile::columns, Tile::step);
    for (int k = 0; k < rows.features; k += gemm_step, ring.advance()) {
      Barrier& full = shared.full[ring.slot];
      unsigned char* stage = stages + ring.slot * bytes;
      shared.empty[ring.slot].wait(ring.phase ^ 1);
      full.arrive_expecting(own_bytes);
      for (int q = helper; q < classes; q += Tile::helpers) {
        const int start = q * task.groups_j + place.j;
#pragma unroll
        for (int strip = 0; strip < Tile::strips; ++strip)
          load(stage + (strip * gemm_step + q * box) * pitch, task.x, full, Keep::normal,
               rows.column(start) / 8 * 8 + place.n + strip * Tile::strip - moved(q, rows.class_bits),
               k >> rows.class_bits, start >> rows.period_bits, place.i);
      }
      if (helper == 1)
        load(stage + Tile::strips * gemm_step * pitch, task.weight, full, Keep::last_out, k, place.r, place.j, place.i);
    }
  }
}

// What a thread reads of X: two neighbours of n in every eighth row, which are all of one class.
struct ShiftedPair {
  uint32_t fixed;    // bytes to its row, and to n if the row were not shifted
  uint32_t offset;   // of the word that holds the first number
  uint32_t between;  // 16 where they lie in two words, and then for all of a warp, else 0

  __host__ __device__ void set_shift(int shift, bool odd) { offset = fixed + shift / 2 * 4, between = odd ? 16 : 0; }

  // Without a branch, before which the compiler would wait for the products.
  __device__ uint32_t read(uint32_t base) const {
    uint32_t word, after;
    asm volatile(
        "{.reg .pred p;\nsetp.ne.b32 p, %3, 0;\nmov.b32 %1, 0;\nld.shared.b32 %0, [%2];\n"
        "@p ld.shared.b32 %1, [%2 + 4];}"
        : "=&r"(word), "=&r"(after)
        : "r"(base + offset), "r"(between));
    return __funnelshift_r(word, after, between);
  }
};

// The rows that a thread has of 16, and its operands of the matrix units.
template <class Tile>
struct ShiftedOperands {
  ShiftedPair even, odd;
  uint32_t eight_rows;

  __host__ __device__ ShiftedOperands(int class_bits, unsigned thread) {
    const int lane = thread % 32, n = shifted_n(thread);
    const auto fixed = [&](int row) {
      const int q = row & ((1 << class_bits) - 1),
                in_stage = n / Tile::strip * gemm_step + q * (gemm_step >> class_bits);
      const int numbers = moved(q, class_bits) + n % Tile::strip;
      return static_cast<uint32_t>((in_stage + (row >> class_bits)) * Tile::pitch(class_bits) + 2 * numbers);
    };
    even.fixed = fixed(lane % 4 * 2), odd.fixed = fixed(lane % 4 * 2 + 1);
    eight_rows = (8 >> class_bits) * Tile::pitch(class_bits);
  }

  __host__ __device__ void set_shifts(int shift, int turn, unsigned thread) {
    const int row = thread % 4 * 2;
    even.set_shift((shift + row * turn) & 7, (shift & 1) != 0);
    odd.set_shift((shift + (row + 1) * turn) & 7, ((shift + turn) & 1) != 0);
  }

  // What it has is computed where this is called, and nowhere else.
  __device__ void fence() {
    fence_register(even.offset), fence_register(even.between), fence_register(odd.offset), fence_register(odd.between);
    fence_register(eight_rows);
  }

  __device__ void build(uint32_t (&operand)[4], uint32_t x, int step) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t base = x + (2 * step + half) * eight_rows, low = even.read(base), high = odd.read(base);
      operand[2 * half] = halves_of(low, high, false), operand[2 * half + 1] = halves_of(low, high, true);
    }
  }
};

// Begins to add the products of STEPS times 16 k, whose operands may not be touched until they are waited for.
template <int STEPS, class T, class Tile>
__device__ inline void begin_steps(float (&sums)[Tile::columns / 2], const uint32_t (&operand)[STEPS][4],
                                   uint32_t weight, int first) {
  begin_products();
#pragma unroll
  for (int step = 0; step < STEPS; ++step)
    Products<T, Tile::columns>::from_registers(sums, operand[step],
                                               describe(weight + (first + step) * 32, Swizzle::bytes_128, 1024), true);
  commit_products();
}

template <int STEPS, class T, class Tile>
__device__ inline void multiply_steps(float (&sums)[Tile::columns / 2], const ShiftedOperands<Tile>& operands,
                                      uint32_t x, uint32_t weight, int first) {
  uint32_t operand[STEPS][4];
#pragma unroll
  for (int step = 0; step < STEPS; ++step) operands.build(operand[step], x, first + step);
  begin_steps<STEPS, T, Tile>(sums, operand, weight, first);
  wait_for_products<0>();
}

template <class T, class Tile>
__device__ void multiply_shifted(const ShiftedTask& task, ShiftedShared<Tile>& shared, unsigned char* stages,
                                 unsigned char* places) {
  const ShiftedRows& rows = task.rows_of_x;
  const int warpgroup = warpgroup_of_block(), bytes = Tile::stage_bytes(rows.class_bits);
  const int turn = static_cast<int>(task.groups_j * rows.stride & 7);  // from the shift of k to that of k + 1
  uint16_t* bias = shared.bias[warpgroup];
  ShiftedOutlet<T, Tile> outlet{places, shared.parts};
  ShiftedOperands<Tile> operands(rows.class_bits, threadIdx.x);
  float sums[Tile::columns / 2];
  VariableRing ring{task.stages};
  BiasFetch<Tile::columns> fetch;
  ShiftedPlace place(task, blockIdx.x, Tile::columns, Tile::step);
  fetch.read(task, place.r, place.i, place.j);
  for (int tile = blockIdx.x; tile < task.tiles; tile += gridDim.x) {
    fetch.write(task, bias, 2 + warpgroup);
    start_sums<T, Tile::columns>(sums, task.bias == nullptr ? nullptr : bias);
    // all have read it, before one writes the next: nothing else on a warp's way to Y waits for the others
    if (task.bias != nullptr) synchronize(2 + warpgroup, 128);
    operands.set_shifts(place.shift(task, rows, 0), turn, threadIdx.x);
    const int next = tile + gridDim.x;
    const ShiftedPlace later(task, next < task.tiles ? next : tile, Tile::columns, Tile::step);
    fetch.read(task, later.r, later.i, later.j);
    for (int k = 0; k < rows.features; k += gemm_step, ring.advance()) {
      shared.full[ring.slot].wait(ring.phase);
      const uint32_t x = shared_address(stages + ring.slot * bytes), weight = x + bytes - Tile::weight_bytes;
      const int left = rows.features - k;
      int step = 0;
#pragma unroll 1
      do {  // once at least: a loop that may be left out makes the compiler serialise the products
        multiply_steps<Tile::steps, T, Tile>(sums, operands, x, weight, step);
        step += Tile::steps;  // beyond c both operands are zero
      } while (step < gemm_step / 16 && 16 * step < left);
      if (threadIdx.x % 32 == 0) shared.empty[ring.slot].arrive();
    }
    fence_sums<Tile::columns>(sums);
    outlet.put(sums, task, place);
    place = later;
  }
}

template <class T, class Tile>
__global__ __launch_bounds__(Tile::threads,
                             Tile::blocks) void shifted_kernel(const __grid_constant__ ShiftedTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char unaligned[];
  __shared__ ShiftedShared<Tile> shared;
  unsigned char* stages = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  if (threadIdx.x < Tile::most_stages) {
    shared.full[threadIdx.x].init(Tile::helpers), shared.empty[threadIdx.x].init(4 * Tile::warpgroups);
    shared.parts.init(threadIdx.x);
    publish_barriers();
  }
  if (threadIdx.x == 32) prefetch_map(task.x), prefetch_map(task.weight), prefetch_map(task.y);
  __syncthreads();
  wait_for_kernels_before();
  unsigned char* places = stages + task.stages * Tile::stage_bytes(task.rows_of_x.class_bits);
  if (threadIdx.x < Tile::consumers) {
    grow_registers<Tile::registers>();
    multiply_shifted<T, Tile>(task, shared, stages, places);
  } else {
    shrink_registers<Tile::helper_registers>();
    const int helper = __shfl_sync(~0u, static_cast<int>(threadIdx.x - Tile::consumers) / 32, 0);
    if (threadIdx.x % 32 == 0 && helper < Tile::helpers) feed_shifted<Tile>(task, shared, stages, helper);
    if (threadIdx.x % 32 == 0 && helper >= Tile::helpers)
      send_shifted<Tile>(task, shared.parts, places, helper - Tile::helpers);
  }
#endif
}

}  // namespace ksmm::hopper
