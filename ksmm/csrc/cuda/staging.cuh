// Moves one tile of X or W from device memory to shared memory, by way of registers, so that the next tile is on its
// way while the present one is multiplied. Runs on host and device.
#pragma once

#include "tile_map.cuh"

namespace ksmm {

// Shared memory holds float32 at [column][row][j], PITCH floats a column: the order in which the multiplication reads
// it.
template <class T, Along ALONG, int ROWS, int COLUMNS, int J, int PITCH, int THREADS>
struct Staging {
  using Map = TileMap<T, 4, ALONG, ROWS, COLUMNS, J, THREADS>;
  static constexpr int per_thread = Map::per_thread;

  KSMM_BOTH static void load(Vector<T, 4>* registers, const Bits<T>* origin, const Strides& strides,
                             const Place& limits, bool whole_vectors, int thread) {
#pragma unroll
    for (int slot = 0; slot < per_thread; ++slot)
      registers[slot] = Map::load(Map::first_place(slot * THREADS + thread), origin, strides, limits, whole_vectors);
  }

  KSMM_BOTH static void store(const Vector<T, 4>* registers, float* shared, int thread) {
#pragma unroll
    for (int slot = 0; slot < per_thread; ++slot) {
      const int index = slot * THREADS + thread;
      if (Map::vectors % THREADS != 0 && index >= Map::vectors) return;
      const Place first = Map::first_place(index);
      float values[4];
#pragma unroll
      for (int element = 0; element < 4; ++element) values[element] = to_float<T>(registers[slot].bits[element]);
      float* target = shared + first.column * PITCH + first.row * J + first.j;
      if constexpr (ALONG == Along::rows || (ALONG == Along::features && J >= 4)) {
        *reinterpret_cast<float4*>(target) = {values[0], values[1], values[2], values[3]};
      } else {
#pragma unroll
        for (int element = 0; element < 4; ++element) {
          const Place step = Map::place_of({0, 0, 0}, element);
          target[step.column * PITCH + step.j] = values[element];
        }
      }
    }
  }
};

}  // namespace ksmm
