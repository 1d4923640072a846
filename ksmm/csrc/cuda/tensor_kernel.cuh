// The matrix-unit kernel: Y[n, i, r, j] = sum over k of X[n, i, k, j] * W[i, r, k, j], float16 or bfloat16, either
// layout.
//
// Faster than the SIMT kernel before it, for the two dtypes that the matrix units multiply: sixteen times the rate,
// tiles that go to shared memory without passing through registers, and a step of k on its way while the one before is
// multiplied. X stays in its own order all the way: in batch_last [k][n], which ldmatrix transposes as it reads; in
// batch_first [n][k][j], from which a thread reads (k, j .. j+7) and (k+1, j .. j+7) and pairs them, by byte
// permutation, into the words (k, k+1) that the matrix units want, one for each of the 8 j. So a warp multiplies 8 j
// side by side, and holds 8 consecutive j of Y: 16 bytes to store.
//
// Index arithmetic and copies run on the host too, where tests/cuda/emulate.cu executes them.
#pragma once

#include "tensor_copy.cuh"

namespace ksmm {

template <class T, Layout LAYOUT, class Tile>
struct TensorSteps {
  static constexpr bool first = LAYOUT == Layout::batch_first;
  static constexpr int planes = Tile::planes;
  using Shared = TensorShared<LAYOUT, Tile>;

  // The 16 x 8 matrices of sums have the n of batch_first, or the r of batch_last, as rows: what is contiguous in Y is
  // then along their columns, or along j.
  static constexpr int matrices_m = (first ? Tile::warp_n : Tile::warp_r) / 16;
  static constexpr int matrices_n = (first ? Tile::warp_r : Tile::warp_n) / 8;
  struct Registers {
    float sums[planes][matrices_m][matrices_n][4];
  };

  // The first n, r and j of a warp's part of the tile.
  struct Seat {
    int n, r, j;
  };
  KSMM_BOTH static Seat seat_of(int thread) {
    const int warp = thread / 32;
    return {warp % Tile::warps_n * Tile::warp_n, warp / Tile::warps_n % Tile::warps_r * Tile::warp_r,
            warp / (Tile::warps_n * Tile::warps_r) * planes};
  }

  // Step 1: columns k .. k + Tile::k of X and W, from device memory to shared memory.
  KSMM_BOTH static void copy(Bits<T>* shared, const Task<T>& task, const Origin& origin, int64_t k, int thread) {
    TensorCopy<T, LAYOUT, Tile>::copy(shared, task, origin, k, thread);
  }

  // Where a lane's row of the matrices that load_matrices reads is. As A: 16 rows of 16 columns. As B: 16 rows (of
  // the operand: columns of B) by 16 columns, two B matrices side by side.
  KSMM_BOTH static int weight_as_a(const Seat& seat, int m, int k, int lane) {
    return Shared::weight_at({seat.r + m * 16 + lane % 16, k + lane / 16 * 8, 0});
  }
  KSMM_BOTH static int weight_as_b(const Seat& seat, int plane, int n, int k, int lane) {
    return Shared::weight_at({seat.r + n * 8 + lane % 8 + lane / 16 * 8, k + lane / 8 % 2 * 8, seat.j + plane});
  }
  KSMM_BOTH static int x_as_a(const Seat& seat, int m, int k, int lane) {
    return Shared::x_at({seat.n + m * 16 + lane % 16, k + lane / 16 * 8, 0});
  }
  KSMM_BOTH static int x_as_b(const Seat& seat, int n, int k, int lane) {  // [k][n] in memory, to be transposed
    return Shared::x_at({seat.n + n * 8 + lane / 16 * 8, k + lane % 16, 0});
  }

  // A of all planes from X as [n][k][j]: words of neighbouring k, paired for each j.
  KSMM_BOTH static void pair_x(uint32_t (&a)[planes][4], const Bits<T>* shared, const Seat& seat, int m, int k,
                               int lane) {
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const Place place = {seat.n + m * 16 + lane / 4 + word % 2 * 8, k + lane % 4 * 2 + word / 2 * 8, seat.j};
      const Vector<T, planes> low = read_planes(shared + Shared::x_at(place));
      const Vector<T, planes> high = read_planes(shared + Shared::x_at({place.row, place.column + 1, place.j}));
#pragma unroll
      for (int plane = 0; plane < planes; ++plane)
        a[plane][word] = low.bits[plane] | static_cast<uint32_t>(high.bits[plane]) << 16;
    }
  }

  KSMM_BOTH static Vector<T, planes> read_planes(const Bits<T>* shared) {
    return *reinterpret_cast<const Vector<T, planes>*>(shared);
  }

#ifdef __CUDACC__
  // Step 2: the products of one step of k.
  __device__ static void multiply(Registers& registers, const Bits<T>* shared, int thread) {
    const Seat seat = seat_of(thread);
    const int lane = thread % 32;
    __syncwarp();  // the copies may have parted the lanes, and what follows is done by whole warps
#pragma unroll
    for (int k = 0; k < Tile::k; k += 16) {
      uint32_t a[matrices_m][planes][4];
#pragma unroll
      for (int m = 0; m < matrices_m; ++m) {
        if constexpr (!first)
          load_matrices(a[m][0], shared + weight_as_a(seat, m, k, lane));
        else if constexpr (planes == 1)
          load_matrices(a[m][0], shared + x_as_a(seat, m, k, lane));
        else
          pair_x(a[m], shared, seat, m, k, lane);
      }
#pragma unroll
      for (int plane = 0; plane < planes; ++plane)
#pragma unroll
        for (int n = 0; n < matrices_n; n += 2) {
          uint32_t b[4];
          if constexpr (first)
            load_matrices(b, shared + weight_as_b(seat, plane, n, k, lane));
          else
            load_matrices_transposed(b, shared + x_as_b(seat, n, k, lane));
#pragma unroll
          for (int m = 0; m < matrices_m; ++m) {
            multiply_add<T>(registers.sums[plane][m][n], a[m][plane], b[0], b[1]);
            multiply_add<T>(registers.sums[plane][m][n + 1], a[m][plane], b[2], b[3]);
          }
        }
    }
  }
#endif

  // Step 3: the sums, to device memory, in vectors of what a thread holds side by side: 8 j; or 2 r of 4, 2 or 1 j; or
  // 2 n.
  static constexpr int y_vector = planes == 8 ? 8 : 2 * planes;
  KSMM_BOTH static void store(const Registers& registers, const Task<T>& task, const Origin& origin, int thread) {
    const Seat seat = seat_of(thread);
    const Strides& strides = task.y_strides;
    Bits<T>* y =
        task.y + origin.i * strides.i + origin.n * strides.row + origin.r * strides.column + origin.j * strides.j;
    const Place limits = {left(task.batch, origin.n, Tile::n), left(task.b, origin.r, Tile::r),
                          left(task.d, origin.j, Tile::j)};
#pragma unroll
    for (int m = 0; m < matrices_m; ++m)
#pragma unroll
      for (int n = 0; n < matrices_n; ++n)
#pragma unroll
        for (int value = 0; value < 4; value += y_vector / planes) {
          Vector<T, y_vector> vector;
#pragma unroll
          for (int element = 0; element < y_vector; ++element)
            vector.bits[element] = to_bits<T>(registers.sums[element % planes][m][n][value + element / planes]);
          store_places(y, strides, limits, task.y_vectors, vector,
                       [&](int element) { return place_in_y(seat, m, n, value, element, thread); });
        }
  }

  // Where the element of a vector that starts with `value` of matrix (m, n) is in the tile.
  KSMM_BOTH static Place place_in_y(const Seat& seat, int m, int n, int value, int element, int thread) {
    const int own = value + element / planes;
    const int along_m = m * 16 + thread % 32 / 4 + own / 2 * 8, along_n = n * 8 + thread % 4 * 2 + own % 2;
    return {seat.n + (first ? along_m : along_n), seat.r + (first ? along_n : along_m), seat.j + element % planes};
  }
};

// Empty below compute capability 8.0, whose kernels are never launched (tensor.cuh).
template <class T, Layout LAYOUT, class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks_per_multiprocessor) tensor_kernel(const Task<T> task) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  using Steps = TensorSteps<T, LAYOUT, Tile>;
  extern __shared__ __align__(16) uint16_t shared[];
  const int thread = static_cast<int>(threadIdx.x);

  // One tile a block; more only where there are more tiles than a grid has blocks.
  for (int64_t tile = blockIdx.x; tile < task.tiles; tile += gridDim.x) {
    const Origin origin = tile_origin(task, tile, Tile::n, Tile::r, Tile::j);
    typename Steps::Registers registers = {};
    uint16_t *present = shared + Steps::Shared::step_size, *next = shared;
    for (int64_t k = -Tile::k; k < task.c; k += Tile::k) {  // multiplies from `present` while `next` is filled
      if (k + Tile::k < task.c) Steps::copy(next, task, origin, k + Tile::k, opaque(thread));
      if (k >= 0) Steps::multiply(registers, present, opaque(thread));
      wait_for_copies();
      __syncthreads();  // every thread's copies are there, and nobody still reads `present`
      uint16_t* const filled = next;
      next = present, present = filled;
    }
    // computed again: cheaper than to keep it through the products
    Steps::store(registers, task, tile_origin(task, opaque(tile), Tile::n, Tile::r, Tile::j), thread);
  }
#endif
}

}  // namespace ksmm
