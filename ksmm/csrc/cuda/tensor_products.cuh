// The products of the matrix-unit kernel: from what tensor_copy.cuh puts into shared memory to sums in registers.
#pragma once

#include "matrix_unit.cuh"
#include "tensor_copy.cuh"

namespace ksmm {

template <class T, Layout LAYOUT, class Tile>
struct TensorProducts {
  static constexpr bool first = LAYOUT == Layout::batch_first;
  static constexpr int planes = Tile::j, group = Tile::group;
  using Shared = TensorShared<LAYOUT, Tile>;

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
};

}  // namespace ksmm
