// The strict float32 kernel: Y[n, i, r, j] = sum over k of X[n, i, k, j] * W[i, r, k, j], by float32 FMA, either
// layout.
//
// Faster than simt_kernel.cuh, the version before it, by what is read of shared memory: there a thread held 4 j side by
// side, which have no operand in common, and read 48 floats for 128 products. Here a warp works on one j, and a thread
// reads 16 floats for 64 products, or 28 for 192. For that, batch_first is transposed to a plane for each j on the way
// to shared memory, by asynchronous copies that need no registers, and back on the way out, so that sectors of Y are
// written whole. One barrier a step.
//
// Each step is a function of the thread's index that runs on the host too, where tests/cuda/emulate.cu executes them in
// turn.
#pragma once

#include "strict_copy.cuh"
#include "strict_sums.cuh"

namespace ksmm {

template <Layout LAYOUT, class Tile>
struct StrictSteps {
  static constexpr bool first = LAYOUT == Layout::batch_first;
  static_assert(first || Tile::j == 1, "batch_last is contiguous along n: J is 1");
  using CopyX = StrictCopy<Tile, Tile::n, Tile::x_pitch, Tile::x_plane>;
  using CopyWeight = StrictCopy<Tile, Tile::r, Tile::weight_pitch, Tile::weight_plane>;
  using Sums = StrictSums<LAYOUT, Tile>;

  // How the weights are read; X is read along rows in batch_last, else along features.
  static constexpr Along x_along = first ? Along::features : Along::rows;
  KSMM_BOTH static Along weight_along(const Task<float>& task) {
    if (task.weight_strides.row == 1) return Along::rows;
    return task.weight_along_columns ? Along::columns : Along::features;
  }

  struct Cursors {
    Cursor x, weight;
  };
  KSMM_BOTH static Cursors start(const Task<float>& task, const Origin& origin, int thread) {
    const int left_j = left(task.d, origin.j, Tile::j);
    const Strides &xs = task.x_strides, &ws = task.weight_strides;
    const uint32_t* x = task.x + origin.i * xs.i + origin.n * xs.row + origin.j * xs.j;
    const uint32_t* w = task.weight + origin.i * ws.i + origin.r * ws.row + origin.j * ws.j;
    return {CopyX::start(x_along, x, xs, {left(task.batch, origin.n, Tile::n), 0, left_j}, task.x_vectors, thread),
            CopyWeight::start(weight_along(task), w, ws, {left(task.b, origin.r, Tile::r), 0, left_j},
                              task.weight_vectors, thread)};
  }

  // Step 1: the next columns of X and W, of which `columns` are left; there after wait_for_groups and a barrier.
  KSMM_BOTH static void copy(float* stage, Cursors& cursors, const Task<float>& task, int64_t columns, int thread) {
    const Strides &xs = task.x_strides, &ws = task.weight_strides;
    float* weight = stage + Tile::x_floats;
    if (columns >= Tile::k && cursors.x.whole && cursors.weight.whole) {
      CopyX::copy_whole(x_along == Along::rows, stage, cursors.x, xs, thread);
      CopyWeight::copy_whole(ws.row == 1, weight, cursors.weight, ws, thread);
    } else {
      CopyX::copy_part(x_along, stage, cursors.x, xs, columns, task.x_vectors, thread);
      CopyWeight::copy_part(weight_along(task), weight, cursors.weight, ws, columns, task.weight_vectors, thread);
    }
  }
  KSMM_BOTH static void skip(Cursors& cursors, const Task<float>& task, int columns) {
    cursors.x.source += columns * task.x_strides.column;
    cursors.weight.source += columns * task.weight_strides.column;
  }

  // Step 2: the products of one step of k.
  KSMM_BOTH static void multiply(typename Sums::Registers& registers, const float* stage, int thread) {
    const auto seat = Sums::seat_of(thread);
    auto& sums = registers.sums;
    const float* x = stage + seat.j * Tile::x_plane + seat.n * 4;
    const float* weight = stage + Tile::x_floats + seat.j * Tile::weight_plane + seat.r * 4;
    // To and fro along the shorter side, so that each product shares an operand with the one before it: registers are
    // read through two ports.
    constexpr bool along_n = Tile::thread_n <= Tile::thread_r;
    constexpr int inners = along_n ? Tile::thread_n : Tile::thread_r;
#pragma unroll
    for (int k = 0; k < Tile::k; ++k) {
      float4 xs[Tile::thread_n / 4], ws[Tile::thread_r / 4];
#pragma unroll
      for (int word = 0; word < Tile::thread_n / 4; ++word)
        xs[word] = *reinterpret_cast<const float4*>(x + k * Tile::x_pitch + word * Tile::threads_n * 4);
#pragma unroll
      for (int word = 0; word < Tile::thread_r / 4; ++word)
        ws[word] = *reinterpret_cast<const float4*>(weight + k * Tile::weight_pitch + word * Tile::threads_r * 4);
#pragma unroll
      for (int outer = 0; outer < Tile::thread_n * Tile::thread_r / inners; ++outer)
#pragma unroll
        for (int step = 0; step < inners; ++step) {
          const int inner = outer % 2 == 0 ? step : inners - 1 - step;
          const int n = along_n ? inner : outer, r = along_n ? outer : inner;
          sums[n][r] = fmaf(part(xs[n / 4], n % 4), part(ws[r / 4], r % 4), sums[n][r]);
        }
    }
  }

  KSMM_BOTH static float part(const float4& word, int index) {
    return index == 0 ? word.x : index == 1 ? word.y : index == 2 ? word.z : word.w;
  }
};

// Adds the products of a tile, of every PARTS-th step of k. `columns` are left of the first one on; barrier() waits for
// all threads that share the stages.
template <class Tile, int PARTS, class Steps, class Barrier>
__device__ __forceinline__ void multiply_tile(typename Steps::Sums::Registers& registers, float* shared,
                                              typename Steps::Cursors& cursors, const Task<float>& task,
                                              int64_t columns, int thread, Barrier barrier) {
  constexpr int ahead = Tile::stages - 1, advance = PARTS * Tile::k;
  for (int stage = 0; stage < ahead; ++stage, columns -= advance) {
    if (columns > 0) {
      Steps::copy(shared + stage * Tile::stage_floats, cursors, task, columns, opaque(thread));
      Steps::skip(cursors, task, advance);
    }
    commit_copies();
  }
  int present = 0, next = ahead * Tile::stage_floats;  // stages of shared memory
  for (; columns > -ahead * advance; columns -= advance) {
    wait_for_groups<ahead - 1>();
    barrier();  // the present step is there for everybody, and nobody still reads the one before
    if (columns > 0) {
      Steps::copy(shared + next, cursors, task, columns, opaque(thread));
      Steps::skip(cursors, task, advance);
    }
    commit_copies();
    Steps::multiply(registers, shared + present, thread);
    present = present == ahead * Tile::stage_floats ? 0 : present + Tile::stage_floats;
    next = next == ahead * Tile::stage_floats ? 0 : next + Tile::stage_floats;
  }
}

// The sums of a tile, on their way to device memory. barrier() waits for all threads that have them.
template <class Tile, class Steps, class Barrier>
__device__ __forceinline__ void store_tile(typename Steps::Sums::Registers& registers, float* shared,
                                           const Task<float>& task, int64_t tile, int thread, Barrier barrier) {
  using Sums = typename Steps::Sums;
  // computed again: cheaper than to keep it through the products
  const Origin again = tile_origin(task, opaque(tile), Tile::n, Tile::r, Tile::j);
  Sums::read_bias(registers, task, again, opaque(thread));
  if constexpr (Tile::j == 1) {
    Sums::store(registers, task, again, opaque(thread));
  } else {
#pragma unroll
    for (int round = 0; round < Tile::rounds; ++round) {
      barrier();  // nobody still reads what was there
      Sums::put(registers, shared, round, opaque(thread));
      barrier();
      Sums::take(shared, task, again, round, opaque(thread));
    }
  }
}

template <Layout LAYOUT, class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks_per_multiprocessor)
    strict_kernel(const Task<float> task) {
  using Steps = StrictSteps<LAYOUT, Tile>;
  extern __shared__ __align__(16) float shared[];
  const int thread = static_cast<int>(threadIdx.x);
  const auto barrier = [] { __syncthreads(); };

  // One tile a block; more where a grid has fewer blocks than there are tiles, and on a part of the device.
  for (int64_t tile = blockIdx.x; tile < task.tiles; tile += gridDim.x) {
    typename Steps::Sums::Registers registers = {};
    typename Steps::Cursors cursors =
        Steps::start(task, tile_origin(task, tile, Tile::n, Tile::r, Tile::j), opaque(thread));
    multiply_tile<Tile, 1, Steps>(registers, shared, cursors, task, task.c, thread, barrier);
    store_tile<Tile, Steps>(registers, shared, task, tile, thread, barrier);
    if (tile + gridDim.x < task.tiles) __syncthreads();  // the next tile overwrites shared memory
  }
}

}  // namespace ksmm
