// The matrix-unit kernel: Y[n, i, r, j] = sum over k of X[n, i, k, j] * W[i, r, k, j], float16 or bfloat16, either
// layout.
//
// X stays in its own order all the way: in batch_last [k][n], which ldmatrix transposes as it reads; in batch_first
// [n][k][j], from which a thread reads (k, j .. j+7) and (k+1, j .. j+7) and pairs them, by byte permutation, into the
// words (k, k+1) that the matrix units want, one for each of the 8 j. So a warp multiplies up to 16 j side by side.
//
// Faster than the version before, which had a single step on its way, and none while it wrote a tile: blocks stay and
// take tile after tile, and the copies run several steps ahead of the products, across the end of a tile. Four
// neighbouring lanes exchange what they hold of Y, so that whole sectors of 32 bytes are written, or 64 bytes.
//
// Index arithmetic and copies run on the host too, where tests/cuda/emulate.cu executes them.
#pragma once

#include "tensor_copy.cuh"

namespace ksmm {

template <class T, Layout LAYOUT, class Tile>
struct TensorSteps {
  static constexpr bool first = LAYOUT == Layout::batch_first;
  static constexpr int planes = Tile::j, group = Tile::group;
  using Shared = TensorShared<LAYOUT, Tile>;
  using Copy = TensorCopy<T, LAYOUT, Tile>;

  // The 16 x 8 matrices of sums have the n of batch_first, or the r of batch_last, as rows: what is contiguous in Y is
  // then along their columns, or along j.
  static constexpr int matrices_m = (first ? Tile::warp_n : Tile::warp_r) / 16;
  static constexpr int matrices_n = (first ? Tile::warp_r : Tile::warp_n) / 8;
  struct Registers {
    float sums[planes][matrices_m][matrices_n][4];
  };

  // The first n and r of a warp's part of the tile.
  struct Seat {
    int n, r;
  };
  KSMM_BOTH static Seat seat_of(int thread) {
    const int warp = thread / 32;
    return {warp % Tile::warps_n * Tile::warp_n, warp / Tile::warps_n * Tile::warp_r};
  }

  // Where a lane's row of the matrices that load_matrices reads is. As A: 16 rows of 16 columns. As B: 16 rows (of
  // the operand: columns of B) by 16 columns, two B matrices side by side.
  KSMM_BOTH static int weight_as_a(const Seat& seat, int m, int k, int lane) {
    return Shared::weight_at({seat.r + m * 16 + lane % 16, k + lane / 16 * 8, 0});
  }
  KSMM_BOTH static int weight_as_b(const Seat& seat, int plane, int n, int k, int lane) {
    return Shared::weight_at({seat.r + n * 8 + lane % 8 + lane / 16 * 8, k + lane / 8 % 2 * 8, plane});
  }
  KSMM_BOTH static int x_as_a(const Seat& seat, int m, int k, int lane) {
    return Shared::x_at({seat.n + m * 16 + lane % 16, k + lane / 16 * 8, 0});
  }
  KSMM_BOTH static int x_as_b(const Seat& seat, int n, int k, int lane) {  // [k][n] in memory, to be transposed
    return Shared::x_at({seat.n + n * 8 + lane / 16 * 8, k + lane % 16, 0});
  }

  // A of a group of planes from X as [n][k][j]: words of neighbouring k, paired for each j.
  KSMM_BOTH static void pair_x(uint32_t (&a)[group][4], const Bits<T>* shared, const Seat& seat, int j, int m, int k,
                               int lane) {
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const Place place = {seat.n + m * 16 + lane / 4 + word % 2 * 8, k + lane % 4 * 2 + word / 2 * 8, j};
      const Vector<T, group> low = read_group(shared + Shared::x_at(place));
      const Vector<T, group> high = read_group(shared + Shared::x_at({place.row, place.column + 1, place.j}));
#pragma unroll
      for (int plane = 0; plane < group; ++plane)
        a[plane][word] = low.bits[plane] | static_cast<uint32_t>(high.bits[plane]) << 16;
    }
  }

  KSMM_BOTH static Vector<T, group> read_group(const Bits<T>* shared) {
    return *reinterpret_cast<const Vector<T, group>*>(shared);
  }

#ifdef __CUDACC__
  // The products of one step of k.
  __device__ static void multiply(Registers& registers, const Bits<T>* shared, int thread) {
    const Seat seat = seat_of(thread);
    const int lane = thread % 32;
    __syncwarp();  // the copies may have parted the lanes, and what follows is done by whole warps
#pragma unroll
    for (int k = 0; k < Tile::k; k += 16)
#pragma unroll
      for (int j = 0; j < planes; j += group) multiply_group(registers, shared, seat, j, k, lane);
  }

  // 16 columns of a group of planes.
  __device__ static void multiply_group(Registers& registers, const Bits<T>* shared, const Seat& seat, int j, int k,
                                        int lane) {
    uint32_t a[matrices_m][group][4];
#pragma unroll
    for (int m = 0; m < matrices_m; ++m) {
      if constexpr (!first)
        load_matrices(a[m][0], shared + weight_as_a(seat, m, k, lane));
      else if constexpr (planes == 1)
        load_matrices(a[m][0], shared + x_as_a(seat, m, k, lane));
      else
        pair_x(a[m], shared, seat, j, m, k, lane);
    }
#pragma unroll
    for (int plane = 0; plane < group; ++plane)
#pragma unroll
      for (int n = 0; n < matrices_n; n += 2) {
        uint32_t b[4];
        if constexpr (first)
          load_matrices(b, shared + weight_as_b(seat, j + plane, n, k, lane));
        else
          load_matrices_transposed(b, shared + x_as_b(seat, n, k, lane));
#pragma unroll
        for (int m = 0; m < matrices_m; ++m) {
          multiply_add<T>(registers.sums[j + plane][m][n], a[m][plane], b[0], b[1]);
          multiply_add<T>(registers.sums[j + plane][m][n + 1], a[m][plane], b[2], b[3]);
        }
      }
  }
#endif

  // The bias, before anything is rounded. A lane holds two neighbouring columns of two rows of each matrix of sums.
  KSMM_BOTH static void add_bias(Registers& registers, const TensorTask<T>& task, const Origin& origin, int thread) {
    if (task.bias == nullptr) return;
    const Seat seat = seat_of(thread);
    const int64_t r = origin.r + seat.r + (first ? thread % 4 * 2 : thread % 32 / 4);
#pragma unroll
    for (int plane = 0; plane < planes; ++plane)
#pragma unroll
      for (int matrix = 0; matrix < (first ? matrices_n : matrices_m); ++matrix)
#pragma unroll
        for (int own = 0; own < 2; ++own) {
          const int64_t own_r = r + (first ? matrix * 8 + own : matrix * 16 + own * 8);
          add_to_row(registers, plane, matrix, own, bias_at<T>(task, origin.i, own_r, origin.j + plane));
        }
  }

  // Adds to all n that this thread holds of one of its r: the own-th of the matrices of that number.
  KSMM_BOTH static void add_to_row(Registers& registers, int plane, int matrix, int own, float bias) {
#pragma unroll
    for (int other = 0; other < (first ? matrices_m : matrices_n); ++other)
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        float (&sums)[4] = first ? registers.sums[plane][other][matrix] : registers.sums[plane][matrix][other];
        sums[first ? n * 2 + own : own * 2 + n] += bias;
      }
  }

  // The sums, to device memory. In a row of a 16 x 8 matrix four lanes hold what lies side by side in Y, two
  // columns each: with 2 or 4 planes a thread writes those, 4 or 8 elements. Else each lane of the four has 4 pieces,
  // and after an exchange lane l writes piece l of each of the four, 8 elements:
  //   1 plane: piece l is from matrix n + l; the lanes' pieces of 2 elements make up one of 8
  //   8 planes: 8 j of column l % 2 of matrix n + l / 2;  16 planes: 8 j from l % 2 * 8 on, of column l / 2.
  static constexpr bool exchanges = planes == 1 || planes >= 8;
  static constexpr int y_vector = exchanges ? 8 : 2 * planes;
  static constexpr int matrices_at_once = planes == 1 ? 4 : planes == 8 ? 2 : 1;

  KSMM_BOTH static void store(const Registers& registers, const TensorTask<T>& task, const Origin& origin, int thread) {
    const Seat seat = seat_of(thread);
    const Strides& strides = task.y_strides;
    Bits<T>* y =
        task.y + origin.i * strides.i + origin.n * strides.row + origin.r * strides.column + origin.j * strides.j;
    const Place limits = {left(task.batch, origin.n, Tile::n), left(task.b, origin.r, Tile::r),
                          left(task.d, origin.j, Tile::j)};
    const auto put = [&](const Place& place, const Vector<T, y_vector>& vector) {
      if (task.y_vectors && inside(element_at(place, y_vector - 1), limits))
        store_global<T, y_vector>(y + offset(place, strides), vector);
      else
        put_pairs(y, strides, limits, place, vector, task.y_pairs);
    };
#pragma unroll
    for (int m = 0; m < matrices_m; ++m)
#pragma unroll
      for (int n = 0; n < matrices_n; n += matrices_at_once)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if constexpr (!exchanges) {
            put(place_in_y(seat, m * 16 + thread % 32 / 4 + half * 8, n * 8 + thread % 4 * 2, 0),
                own_pair(registers, m, n, half));
          } else if constexpr (planes == 1) {
            uint32_t words[4];
            exchange(words, registers, m, n, half, 0, thread);
            put(place_in_y(seat, m * 16 + thread % 32 / 4 + half * 8, (n + thread % 4) * 8, 0), from_words(words));
          } else {
            store_pieces(registers, seat, m, n, half, thread, put);
          }
        }
  }

  // Part of a vector of Y, or one that is not aligned. pairs: whether two elements are.
  KSMM_BOTH static void put_pairs(Bits<T>* y, const Strides& strides, const Place& limits, const Place& place,
                                  const Vector<T, y_vector>& vector, bool pairs) {
#pragma unroll 1  // short code for the rare case
    for (int element = 0; element < y_vector; element += 2) {
      const Place low = element_at(place, element), high = element_at(place, element + 1);
      const Vector<T, 2> pair = {{element_of(vector, element), element_of(vector, element + 1)}};
      if (pairs && inside(high, limits)) {
        store_global<T, 2>(y + offset(low, strides), pair);
      } else {
        if (inside(low, limits)) y[offset(low, strides)] = pair.bits[0];
        if (inside(high, limits)) y[offset(high, strides)] = pair.bits[1];
      }
    }
  }

  // Lane l's pieces of the four lanes, which are four vectors.
  template <class Put>
  KSMM_BOTH static void store_pieces(const Registers& registers, const Seat& seat, int m, int n, int half, int thread,
                                     Put put) {
    uint32_t words[4][4];
#pragma unroll
    for (int word = 0; word < 4; ++word) exchange(words[word], registers, m, n, half, word, thread);
    const int row = m * 16 + thread % 32 / 4 + half * 8, piece = thread % 4;
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const uint32_t own[4] = {words[0][lane], words[1][lane], words[2][lane], words[3][lane]};
      const int column = planes == 16 ? n * 8 + lane * 2 + piece / 2 : (n + piece / 2) * 8 + lane * 2 + piece % 2;
      put(place_in_y(seat, row, column, planes == 16 ? piece % 2 * 8 : 0), from_words(own));
    }
  }

  // words[q] becomes word `word` of this lane's piece from lane q of its four.
  KSMM_BOTH static void exchange(uint32_t (&words)[4], const Registers& registers, int m, int n, int half, int word,
                                 int thread) {
#ifdef __CUDA_ARCH__
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) words[piece] = word_of_piece(registers, m, n, half, piece, word);
    transpose_quad(words, thread % 32);
#else
    // The emulation keeps the registers of a block's threads side by side.
    for (int lane = 0; lane < 4; ++lane)
      words[lane] = word_of_piece((&registers)[lane - thread % 4], m, n, half, thread % 4, word);
#endif
  }

  KSMM_BOTH static uint32_t word_of_piece(const Registers& registers, int m, int n, int half, int piece, int word) {
    if constexpr (planes == 1) {
      const float* sums = registers.sums[0][m][n + piece] + half * 2;
      return pack(sums[0], sums[1]);
    } else {
      const int j = (planes == 16 ? piece % 2 * 8 : 0) + word * 2, matrix = planes == 16 ? n : n + piece / 2;
      const int value = half * 2 + (planes == 16 ? piece / 2 : piece % 2);
      return pack(registers.sums[j % planes][m][matrix][value], registers.sums[(j + 1) % planes][m][matrix][value]);
    }
  }

  KSMM_BOTH static uint32_t pack(float low, float high) {
    return to_bits<T>(low) | static_cast<uint32_t>(to_bits<T>(high)) << 16;
  }

  KSMM_BOTH static Vector<T, y_vector> from_words(const uint32_t (&words)[4]) {
    Vector<T, y_vector> vector;
    memcpy(&vector, words, sizeof vector);
    return vector;
  }

  // Both columns of one row of a matrix, all planes.
  KSMM_BOTH static Vector<T, y_vector> own_pair(const Registers& registers, int m, int n, int half) {
    Vector<T, y_vector> vector;
#pragma unroll
    for (int element = 0; element < y_vector; ++element)
      vector.bits[element] = to_bits<T>(registers.sums[element % planes][m][n][half * 2 + element / planes]);
    return vector;
  }

  // Rows and columns of the warp's matrices of sums as places in the tile of Y.
  KSMM_BOTH static Place place_in_y(const Seat& seat, int along_m, int along_n, int j) {
    return {seat.n + (first ? along_m : along_n), seat.r + (first ? along_n : along_m), j};
  }
  KSMM_BOTH static Place element_at(const Place& place, int element) {
    if constexpr (!first) return {place.row + element, place.column, 0};
    if constexpr (planes >= 8) return {place.row, place.column, place.j + element};
    return {place.row, place.column + element / planes, element % planes};
  }
};

// Empty below compute capability 8.0, whose kernels are never launched (tensor.cuh).
template <class T, Layout LAYOUT, class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks_per_multiprocessor)
    tensor_kernel(const TensorTask<T> task) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  using Steps = TensorSteps<T, LAYOUT, Tile>;
  extern __shared__ __align__(16) uint16_t shared[];
  const int thread = static_cast<int>(threadIdx.x);

  // The step that is copied next, stages - 1 steps ahead of the one that is multiplied.
  int64_t ahead_tile = blockIdx.x, ahead_k = 0;
  const auto source_of = [&](int64_t tile) {
    return Steps::Copy::source_of(task, tile_origin(task, tile, Tile::n, Tile::r, Tile::j));
  };
  auto ahead = source_of(ahead_tile);
  const auto copy_ahead = [&](int slot) {
    if (ahead_tile < task.tiles) {
      Steps::Copy::copy(shared + slot * Steps::Shared::step_size, task, ahead, ahead_k,
                        Tile::sums_per_thread < 128 || Tile::j == 1 ? thread : opaque(thread));
      ahead_k += Tile::k;
      if (ahead_k >= task.c) {
        ahead_k = 0, ahead_tile += gridDim.x;
        ahead = source_of(ahead_tile);
      }
    }
    end_of_copies();
  };
#pragma unroll 1
  for (int slot = 0; slot < Tile::stages - 1; ++slot) copy_ahead(slot);

  int present = 0, free = Tile::stages - 1;
  for (int64_t tile = blockIdx.x; tile < task.tiles; tile += gridDim.x) {
    typename Steps::Registers registers = {};
    for (int64_t k = 0; k < task.c; k += Tile::k) {
      wait_for_copies<Tile::stages - 2>();
      __syncthreads();  // every thread's copies of `present` are there, and nobody still reads `free`
      copy_ahead(free);
      Steps::multiply(registers, shared + present * Steps::Shared::step_size, opaque(thread));
      free = present;
      present = present + 1 == Tile::stages ? 0 : present + 1;
    }
    // the origin is computed again: cheaper than to keep it through the products
    const Origin again = tile_origin(task, opaque(tile), Tile::n, Tile::r, Tile::j);
    Steps::add_bias(registers, task, again, opaque(thread));
    Steps::store(registers, task, again, opaque(thread));
  }
#endif
}

}  // namespace ksmm
