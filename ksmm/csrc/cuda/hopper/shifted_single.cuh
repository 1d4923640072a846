// The kernel for few columns in batch_last whose rows begin anywhere (16-bit types): blocks of one tile each.
//
// All of X and W that a tile needs is asked for at once, as in gemm_single.cuh; each warp asks for its classes of rows
// (shifted_tile.cuh). From there on X goes through registers as in shifted_kernel.cuh. Sums leave through shared
// memory, so that a warp writes words of a row of Y side by side, wherever it begins.
//
// Few of its instructions are executed twice, and what is executed once takes as long as it takes to fetch it: so
// loops are rolled, and all that is known before X is is computed while the kernel waits for those before it
// (docs/designs.md, "Few columns").
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

// Boxes of X that a thread of each warp asks for: those of every few classes of rows.
template <class Tile>
struct ShiftedBoxes {
  static constexpr int warps = Tile::threads / 32, most = (8 + warps - 1) / warps;
  int count, column[most], row[most], offset[most];  // offset in a stage

  __device__ ShiftedBoxes(const ShiftedTask& task, const ShiftedPlace& place, int warp) {
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

// What a lane writes of the rows of Y that its warp has, which all begin at a word or all between two: a pair of
// neighbours by a word, or the first number of a row or the last one alone; and where 64 n begin between words, the
// first lane the last number, too.
struct ShiftedLane {
  int from;     // where the word that its pair ends in is in shared memory, in bytes,
  int before;   // how far before it the word that the pair begins in,
  int between;  // and how many bits the pair begins behind its first word
  int alone;    // how far to shift a pair for a number that is written alone
  int n;        // of the first number that it writes
  bool whole, single, last;

  __host__ __device__ ShiftedLane(int lane, bool odd, int count) {
    const int first = 2 * lane - static_cast<int>(odd);
    from = 4 * lane, before = odd && lane > 0 ? 4 : 0, between = odd ? 16 : 0;
    alone = first < 0 ? 16 : 0, n = first < 0 ? 0 : first;
    whole = first >= 0 && first + 1 < count, single = first < 0 || first + 1 == count;
    last = first < 0 && count == gemm_rows;
  }
};

// The warps of a warpgroup's Y write its rows in turns, and read several before they write them.
template <class Tile>
struct ShiftedWriter {
  static constexpr int rows = Tile::columns / Tile::warps, at_once = rows < 4 ? rows : 4;
  static_assert(Tile::warps % 2 == 0, "all rows of a warp begin at a word, or all between two");
  ShiftedLane lane;
  uint16_t* to;
  int64_t step;  // from row to row of a warp
  int left;      // rows that there are

  __device__ ShiftedWriter(const ShiftedTask& task, const ShiftedPlace& place) : lane(0, false, 0) {
    const int warp = threadIdx.x / 32 % Tile::warps;
    uint16_t* const row = place.row(task, task.rows_of_y, place.r + warp) + place.n;
    const auto count = static_cast<int>(min(static_cast<int64_t>(Tile::rows), task.batch - place.n));
    lane = ShiftedLane(threadIdx.x % 32, reinterpret_cast<uintptr_t>(row) % 4 != 0, count);
    to = row + lane.n, left = task.b - place.r - warp;
    step = static_cast<int64_t>(task.groups_j) * task.rows_of_y.stride * Tile::warps;
  }

  // What it has is computed where this is called, and nowhere else.
  __device__ void fence() {
    asm volatile(""
                 : "+l"(to), "+l"(step), "+r"(left), "+r"(lane.from), "+r"(lane.before), "+r"(lane.between),
                   "+r"(lane.alone)::"memory");
  }

  __device__ void write(const unsigned char* y) {
    const unsigned char* from = y + threadIdx.x / 32 % Tile::warps * Tile::y_pitch + lane.from;
#pragma unroll 1
    for (int at = 0; at < rows; at += at_once) {
      uint32_t pairs[at_once];
      uint16_t last[at_once];
#pragma unroll
      for (int row = 0; row < at_once; ++row) {
        const unsigned char* const word = from + row * Tile::warps * Tile::y_pitch;
        pairs[row] = __funnelshift_r(*reinterpret_cast<const uint32_t*>(word - lane.before),
                                     *reinterpret_cast<const uint32_t*>(word), lane.between);
        if (lane.last) last[row] = *reinterpret_cast<const uint16_t*>(word + 2 * gemm_rows - 2);
      }
#pragma unroll
      for (int row = 0; row < at_once; ++row, left -= Tile::warps, to += step) {
        if (left <= 0) return;
        if (lane.whole) *reinterpret_cast<uint32_t*>(to) = pairs[row];
        if (lane.single) *to = static_cast<uint16_t>(pairs[row] >> lane.alone);
        if (lane.last) to[gemm_rows - 1] = last[row];
      }
      from += at_once * Tile::warps * Tile::y_pitch;
    }
  }
};

template <class T, class Tile>
__global__ __launch_bounds__(Tile::threads) void shifted_single_kernel(const __grid_constant__ ShiftedTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char unaligned[];
  __shared__ ShiftedSingleShared<Tile> shared;
  unsigned char* const stages = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  ShiftedPlace place(task, static_cast<int>(blockIdx.x), Tile::block_columns, Tile::step);
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
