// Moves one tile of X or W from device memory to shared memory, by way of registers, so that the next tile is on its
// way while the present one is multiplied. Runs on host and device.
#pragma once

#include "task.cuh"

namespace ksmm {

// A tile of ROWS x COLUMNS x J elements, cut into quads along ALONG. Quad q belongs to thread q % THREADS; consecutive
// quads, hence consecutive threads, follow device memory. Shared memory holds float32 at [column][row][j], PITCH floats
// a column: the order in which the multiplication reads it.
template <class T, Along ALONG, int ROWS, int COLUMNS, int J, int PITCH, int THREADS>
struct Staging {
  static constexpr int quads = ROWS * COLUMNS * J / 4;
  static constexpr int quads_per_thread = (quads + THREADS - 1) / THREADS;
  static_assert(ALONG != Along::rows || (ROWS % 4 == 0 && J == 1),
                "quads along rows need a multiple of 4 rows and J = 1");
  static_assert(ALONG != Along::columns || COLUMNS % 4 == 0, "quads along columns need a multiple of 4 columns");
  static_assert(ALONG != Along::features || (COLUMNS * J % 4 == 0 && (J % 4 == 0 || 4 % J == 0)),
                "a quad along features must not straddle two rows, nor two columns in part");

  KSMM_BOTH static Place first_place(int quad) {
    if constexpr (ALONG == Along::rows) return {quad % (ROWS / 4) * 4, quad / (ROWS / 4), 0};
    if constexpr (ALONG == Along::columns) {
      const int rest = quad / (COLUMNS / 4);
      return {rest / J, quad % (COLUMNS / 4) * 4, rest % J};
    }
    const int feature = quad % (COLUMNS * J / 4) * 4;
    return {quad / (COLUMNS * J / 4), feature / J, feature % J};
  }

  KSMM_BOTH static Place place_of(const Place& first, int element) {
    if constexpr (ALONG == Along::rows) return {first.row + element, first.column, first.j};
    if constexpr (ALONG == Along::columns) return {first.row, first.column + element, first.j};
    if constexpr (J >= 4) return {first.row, first.column, first.j + element};
    return {first.row, first.column + element / J, element % J};
  }

  // Reads this thread's quads of the tile at `origin`; what lies outside `limits` is 0 and is not read.
  KSMM_BOTH static void load(Quad<T>* registers, const Bits<T>* origin, const Strides& strides, const Place& limits,
                             bool whole_quads, int thread) {
#pragma unroll
    for (int slot = 0; slot < quads_per_thread; ++slot) {
      const Place first = first_place(slot * THREADS + thread);
      Quad<T> quad = {};
      if (whole_quads && inside(place_of(first, 3), limits)) {
        quad = load_quad(reinterpret_cast<const Quad<T>*>(origin + offset(first, strides)));
      } else {
#pragma unroll
        for (int element = 0; element < 4; ++element) {
          const Place place = place_of(first, element);
          if (inside(place, limits)) quad.bits[element] = read_only(origin + offset(place, strides));
        }
      }
      registers[slot] = quad;
    }
  }

  KSMM_BOTH static void store(const Quad<T>* registers, float* shared, int thread) {
#pragma unroll
    for (int slot = 0; slot < quads_per_thread; ++slot) {
      const int index = slot * THREADS + thread;
      if (quads % THREADS != 0 && index >= quads) return;
      const Place first = first_place(index);
      const Quad<T>& quad = registers[slot];
      const float4 values = {to_float<T>(quad.bits[0]), to_float<T>(quad.bits[1]), to_float<T>(quad.bits[2]),
                             to_float<T>(quad.bits[3])};
      float* target = shared + first.column * PITCH + first.row * J + first.j;
      if constexpr (ALONG == Along::rows || (ALONG == Along::features && J >= 4)) {
        *reinterpret_cast<float4*>(target) = values;
      } else {
        const float scalars[4] = {values.x, values.y, values.z, values.w};
#pragma unroll
        for (int element = 0; element < 4; ++element) {
          const Place step = place_of({0, 0, 0}, element);
          target[step.column * PITCH + step.j] = scalars[element];
        }
      }
    }
  }
};

}  // namespace ksmm
