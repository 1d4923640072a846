// The float32-FMA kernel: Y[n, i, r, j] = sum over k of X[n, i, k, j] * W[i, r, k, j], either layout; for the 16-bit
// types on GPUs without their matrix units (float32 has strict_kernel.cuh).
//
// The first version: there is none before it. What it gains over torch.bmm between two permutations is that X is read
// and Y written once, in place. In batch_last a row (i, k, j) of X is contiguous along n: an ordinary product with
// strides. In batch_first the stride of k is d, so a block takes J consecutive j at once, and a thread multiplies 4 of
// them side by side: memory, shared memory and registers then all hold j innermost, nothing is transposed, and 32-byte
// sectors are read and written whole.
//
// Each step is a function of the thread's index that runs on the host too, where tests/cuda/emulate.cu executes them in
// turn.
#pragma once

#include "simt_tile.cuh"
#include "staging.cuh"

namespace ksmm {

template <class T, Layout LAYOUT, class Tile>
struct SimtSteps {
  static constexpr Along along = LAYOUT == Layout::batch_first ? Along::features : Along::rows;
  using StageX = Staging<T, along, Tile::n, Tile::k, Tile::j, Tile::x_pitch, Tile::threads>;
  using StageByColumn = Staging<T, Along::columns, Tile::r, Tile::k, Tile::j, Tile::weight_pitch, Tile::threads>;
  using StageByFeature = Staging<T, Along::features, Tile::r, Tile::k, Tile::j, Tile::weight_pitch, Tile::threads>;
  static constexpr int x_words = Tile::thread_n / Tile::pack, weight_words = Tile::thread_r / Tile::pack;
  static_assert(LAYOUT == Layout::batch_first || Tile::j == 1, "batch_last is contiguous along n: J is 1");

  struct Registers {
    Vector<T, 4> x[StageX::per_thread], weight[StageByColumn::per_thread];
    float sums[Tile::thread_n][Tile::thread_r][Tile::thread_j];
  };

  // Which of the threads along n, r and j a thread is.
  struct Seat {
    int n, r, j;
  };
  KSMM_BOTH static Seat seat_of(int thread) {
    const int warp = thread / 32, lane = thread % 32;
    return {warp % Tile::warps_n * Tile::warp_n + lane / Tile::threads_j % Tile::warp_n,
            warp / Tile::warps_n * Tile::warp_r + lane / (Tile::threads_j * Tile::warp_n), lane % Tile::threads_j};
  }

  // Step 1: columns k .. k + Tile::k of X and W, from device memory to registers.
  KSMM_BOTH static void load(Registers& registers, const Task<T>& task, const Origin& origin, int64_t k, int thread) {
    const int left_k = left(task.c, k, Tile::k), left_j = left(task.d, origin.j, Tile::j);
    const Strides &xs = task.x_strides, &ws = task.weight_strides;
    const Bits<T>* x = task.x + origin.i * xs.i + origin.n * xs.row + k * xs.column + origin.j * xs.j;
    const Bits<T>* w = task.weight + origin.i * ws.i + origin.r * ws.row + k * ws.column + origin.j * ws.j;
    const Place x_limits = {left(task.batch, origin.n, Tile::n), left_k, left_j};
    const Place w_limits = {left(task.b, origin.r, Tile::r), left_k, left_j};
    StageX::load(registers.x, x, xs, x_limits, task.x_vectors, thread);
    if (task.weight_along_columns)
      StageByColumn::load(registers.weight, w, ws, w_limits, task.weight_vectors, thread);
    else
      StageByFeature::load(registers.weight, w, ws, w_limits, task.weight_vectors, thread);
  }

  // Step 2: from registers to shared memory.
  KSMM_BOTH static void stage(const Registers& registers, const Task<T>& task, float* x, float* weight, int thread) {
    StageX::store(registers.x, x, thread);
    if (task.weight_along_columns)
      StageByColumn::store(registers.weight, weight, thread);
    else
      StageByFeature::store(registers.weight, weight, thread);
  }

  // Step 3: the products of one step of k.
  KSMM_BOTH static void multiply(Registers& registers, const float* x, const float* weight, int thread) {
    const Seat seat = seat_of(thread);
    x += seat.n * Tile::pack * Tile::j + seat.j * Tile::thread_j;
    weight += seat.r * Tile::pack * Tile::j + seat.j * Tile::thread_j;
#pragma unroll 2
    for (int k = 0; k < Tile::k; ++k) {
      float4 xs[x_words], ws[weight_words];
#pragma unroll
      for (int word = 0; word < x_words; ++word)
        xs[word] =
            *reinterpret_cast<const float4*>(x + k * Tile::x_pitch + word * Tile::threads_n * Tile::pack * Tile::j);
#pragma unroll
      for (int word = 0; word < weight_words; ++word)
        ws[word] = *reinterpret_cast<const float4*>(weight + k * Tile::weight_pitch +
                                                    word * Tile::threads_r * Tile::pack * Tile::j);
#pragma unroll
      for (int n = 0; n < Tile::thread_n; ++n)
#pragma unroll
        for (int r = 0; r < Tile::thread_r; ++r)
#pragma unroll
          for (int j = 0; j < Tile::thread_j; ++j) {
            float& sum = registers.sums[n][r][j];
            sum = fmaf(part(xs[n / Tile::pack], n % Tile::pack * Tile::thread_j + j),
                       part(ws[r / Tile::pack], r % Tile::pack * Tile::thread_j + j), sum);
          }
    }
  }

  KSMM_BOTH static float part(const float4& word, int index) {
    return index == 0 ? word.x : index == 1 ? word.y : index == 2 ? word.z : word.w;
  }

  // Step 4: the bias, before anything is rounded.
  KSMM_BOTH static void add_bias(Registers& registers, const Task<T>& task, const Origin& origin, int thread) {
    if (task.bias == nullptr) return;
    const Seat seat = seat_of(thread);
#pragma unroll
    for (int r = 0; r < Tile::thread_r; ++r)
#pragma unroll
      for (int j = 0; j < Tile::thread_j; ++j) {
        const float bias = bias_at(task, origin.i, origin.r + index_in_tile(r, seat.r, Tile::threads_r),
                                   origin.j + seat.j * Tile::thread_j + j);
#pragma unroll
        for (int n = 0; n < Tile::thread_n; ++n) registers.sums[n][r][j] += bias;
      }
  }

  // Step 5: the sums, to device memory. Vectors lie along n in batch_last, along (r, j) in batch_first.
  KSMM_BOTH static void store(const Registers& registers, const Task<T>& task, const Origin& origin, int thread) {
    const Seat seat = seat_of(thread);
    const Strides& strides = task.y_strides;
    Bits<T>* y =
        task.y + origin.i * strides.i + origin.n * strides.row + origin.r * strides.column + origin.j * strides.j;
    const Place limits = {left(task.batch, origin.n, Tile::n), left(task.b, origin.r, Tile::r),
                          left(task.d, origin.j, Tile::j)};
#pragma unroll
    for (int n = 0; n < Tile::thread_n; n += along_n ? 4 : 1)
#pragma unroll
      for (int r = 0; r < Tile::thread_r; r += along_n ? 1 : Tile::pack) {
        Vector<T, 4> vector;
#pragma unroll
        for (int element = 0; element < 4; ++element) {
          const Place own = own_place(n, r, element);
          vector.bits[element] = to_bits<T>(registers.sums[own.row][own.column][own.j]);
        }
        store_places(y, strides, limits, task.y_vectors, vector, [&](int element) -> Place {
          const Place own = own_place(n, r, element);
          return {index_in_tile(own.row, seat.n, Tile::threads_n), index_in_tile(own.column, seat.r, Tile::threads_r),
                  seat.j * Tile::thread_j + own.j};
        });
      }
  }

  // Which of the thread's own sums, [n][r][j], is an element of the vector that starts with (n, r, 0).
  static constexpr bool along_n = LAYOUT == Layout::batch_last;
  KSMM_BOTH static Place own_place(int n, int r, int element) {
    if constexpr (along_n) return {n + element, r, 0};
    return {n, r + element / Tile::thread_j, element % Tile::thread_j};
  }

  // Which n, or r, of the tile the thread in that seat holds as its `own`-th.
  KSMM_BOTH static int index_in_tile(int own, int seat, int threads) {
    return (own / Tile::pack * threads + seat) * Tile::pack + own % Tile::pack;
  }
};

template <class T, Layout LAYOUT, class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks_per_multiprocessor) simt_kernel(const Task<T> task) {
  using Steps = SimtSteps<T, LAYOUT, Tile>;
  __shared__ __align__(16) float x[Tile::k * Tile::x_pitch];
  __shared__ __align__(16) float weight[Tile::k * Tile::weight_pitch];
  const int thread = static_cast<int>(threadIdx.x);

  // One tile a block; more only where there are more tiles than a grid has blocks.
  for (int64_t tile = blockIdx.x; tile < task.tiles; tile += gridDim.x) {
    const Origin origin = tile_origin(task, tile, Tile::n, Tile::r, Tile::j);
    typename Steps::Registers registers = {};
    for (int64_t k = -Tile::k; k < task.c; k += Tile::k) {  // multiplies one step while the next is loaded
      const bool more = k + Tile::k < task.c;
      if (more) Steps::load(registers, task, origin, k + Tile::k, opaque(thread));
      if (k >= 0) Steps::multiply(registers, x, weight, thread);
      __syncthreads();  // nobody still reads the step just multiplied
      if (more) Steps::stage(registers, task, x, weight, thread);
      __syncthreads();
    }
    // computed again: cheaper than to keep it through the products
    const Origin again = tile_origin(task, opaque(tile), Tile::n, Tile::r, Tile::j);
    Steps::add_bias(registers, task, again, opaque(thread));
    Steps::store(registers, task, again, opaque(thread));
  }
}

}  // namespace ksmm
