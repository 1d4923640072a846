// Brings a step of X and W from device memory to shared memory, for the matrix-unit kernel. Runs on host and device.
#pragma once

#include "matrix_unit.cuh"
#include "tensor_tile.cuh"
#include "tile_map.cuh"

namespace ksmm {

// Where the elements of a step are in shared memory, in elements. Rows are padded so that the 8 rows of a matrix, and
// the lanes of a quarter warp, meet in different banks.
template <Layout LAYOUT, class Tile>
struct TensorShared {
  static constexpr bool first = LAYOUT == Layout::batch_first;
  static constexpr int planes = Tile::planes;
  static constexpr int x_padding = planes == 4 ? 32 : planes == 2 ? 16 : 8;
  static constexpr int x_pitch = first ? Tile::k * planes + x_padding : Tile::n + 8;
  static constexpr int x_piece = first ? Tile::n * x_pitch + (Tile::pieces > 1 ? 32 : 0) : Tile::k * x_pitch;
  static constexpr int weight_pitch = Tile::k + 8, weight_plane = Tile::r * weight_pitch + 16;
  static constexpr int x_size = Tile::pieces * x_piece, weight_size = Tile::j * weight_plane;
  static constexpr int step_size = x_size + weight_size;
  static constexpr int bytes = 2 * step_size * static_cast<int>(sizeof(uint16_t));
  static_assert(x_pitch % 8 == 0 && x_piece % 8 == 0 && weight_pitch % 8 == 0 && weight_plane % 8 == 0,
                "16-byte accesses of shared memory must be aligned");

  KSMM_BOTH static int x_at(const Place& place) {
    if constexpr (!first) return place.column * x_pitch + place.row;
    return place.j / planes * x_piece + place.row * x_pitch + place.column * planes + place.j % planes;
  }
  KSMM_BOTH static int weight_at(const Place& place) {
    return x_size + place.j * weight_plane + place.row * weight_pitch + place.column;
  }
};

template <class T, Layout LAYOUT, class Tile>
struct TensorCopy {
  static constexpr bool first = LAYOUT == Layout::batch_first;
  static constexpr int vector = 8;
  using Shared = TensorShared<LAYOUT, Tile>;
  using MapX = TileMap<T, vector, first ? Along::features : Along::rows, Tile::n, Tile::k, Tile::j, Tile::threads>;
  using MapByColumn = TileMap<T, vector, Along::columns, Tile::r, Tile::k, Tile::j, Tile::threads>;
  using MapByFeature = TileMap<T, vector, Along::features, Tile::r, Tile::k, Tile::j, Tile::threads>;
  static_assert(first || Tile::j == 1, "batch_last is contiguous along n: J is 1");

  // Columns k .. k + Tile::k of X and W; complete after wait_for_copies and a barrier.
  KSMM_BOTH static void copy(Bits<T>* shared, const Task<T>& task, const Origin& origin, int64_t k, int thread) {
    const int left_k = left(task.c, k, Tile::k), left_j = left(task.d, origin.j, Tile::j);
    const Strides &xs = task.x_strides, &ws = task.weight_strides;
    const Bits<T>* x = task.x + origin.i * xs.i + origin.n * xs.row + k * xs.column + origin.j * xs.j;
    const Bits<T>* w = task.weight + origin.i * ws.i + origin.r * ws.row + k * ws.column + origin.j * ws.j;
    const Place x_limits = {left(task.batch, origin.n, Tile::n), left_k, left_j};
    const Place w_limits = {left(task.b, origin.r, Tile::r), left_k, left_j};
    copy_tile<MapX>(shared, x, xs, x_limits, task.x_vectors, thread,
                    [](const Place& place) { return Shared::x_at(place); });
    if (task.weight_along_columns)
      copy_tile<MapByColumn>(shared, w, ws, w_limits, task.weight_vectors, thread,
                             [](const Place& place) { return Shared::weight_at(place); });
    else
      scatter_weight(shared, w, ws, w_limits, task.weight_vectors, thread);
  }

  // For an operand whose vectors are contiguous in shared memory, too.
  template <class Map, class At>
  KSMM_BOTH static void copy_tile(Bits<T>* shared, const Bits<T>* origin, const Strides& strides, const Place& limits,
                                  bool whole_vectors, int thread, At at) {
    if (!whole_vectors) {
#pragma unroll 1  // short code for the rare case
      for (int index = thread; index < Map::vectors; index += Tile::threads) {
        const Place place = Map::first_place(index);
        store_shared(shared + at(place), Map::load_elements(place, origin, strides, limits));
      }
      return;
    }
#pragma unroll
    for (int slot = 0; slot < Map::per_thread; ++slot) {
      const int index = slot * Tile::threads + thread;
      if (Map::vectors % Tile::threads != 0 && index >= Map::vectors) return;
      const Place place = Map::first_place(index);
      Bits<T>* target = shared + at(place);
      // opaque: an address costs less to compute again than to keep in registers through the products
      const Strides own = {0, opaque(strides.row), opaque(strides.column), opaque(strides.j)};
      if (inside(Map::place_of(place, vector - 1), limits)) {
        copy_vector(target, origin + offset(place, own));
      } else {
        store_shared(target, {});
        if (inside(place, limits)) Map::copy_elements(target, place, origin, own, limits);
      }
    }
  }

  KSMM_BOTH static void store_shared(Bits<T>* shared, const Vector<T, vector>& values) {
    *reinterpret_cast<Vector<T, vector>*>(shared) = values;
  }

  KSMM_BOTH static void copy_vector(Bits<T>* shared, const Bits<T>* global) {
#ifdef __CUDA_ARCH__
    copy_16_bytes(shared, global);
#else
    memcpy(shared, global, vector * sizeof(Bits<T>));
#endif
  }

  // For weights that are contiguous along j, as in the canonical tensor: their vectors are spread over the planes.
  KSMM_BOTH static void scatter_weight(Bits<T>* shared, const Bits<T>* origin, const Strides& strides,
                                       const Place& limits, bool whole_vectors, int thread) {
#pragma unroll 1  // short code for the rare case
    for (int index = thread; index < MapByFeature::vectors; index += Tile::threads) {
      const Place place = MapByFeature::first_place(index);
      const Vector<T, vector> values = MapByFeature::load(place, origin, strides, limits, whole_vectors);
#pragma unroll
      for (int element = 0; element < vector; ++element)
        shared[Shared::weight_at(MapByFeature::place_of(place, element))] = values.bits[element];
    }
  }
};

}  // namespace ksmm
