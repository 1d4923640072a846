// The way of the matrix-unit kernel's sums to Y, with the bias.
#pragma once

#include "tensor_products.cuh"

namespace ksmm {

template <class T, Layout LAYOUT, class Tile>
struct TensorStore {
  using Products = TensorProducts<T, LAYOUT, Tile>;
  using Registers = typename Products::Registers;
  using Seat = typename Products::Seat;
  static constexpr bool first = Products::first;
  static constexpr int planes = Products::planes;
  static constexpr int matrices_m = Products::matrices_m, matrices_n = Products::matrices_n;

  // The bias, before anything is rounded. A lane holds two neighbouring columns of two rows of each matrix of sums.
  KSMM_BOTH static void add_bias(Registers& registers, const TensorTask<T>& task, const Origin& origin, int thread) {
    if (task.bias == nullptr) return;
    const Seat seat = Products::seat_of(thread);
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
    const Seat seat = Products::seat_of(thread);
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

}  // namespace ksmm
