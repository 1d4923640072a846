// Brings a step of X and W from device memory to shared memory, for the matrix-unit kernel. Runs on host and device.
#pragma once

#include "matrix_unit.cuh"
#include "tensor_tile.cuh"
#include "tile_map.cuh"

namespace ksmm {

// Where the elements of a step are in shared memory, in elements. Rows are padded so that the 8 rows of a matrix, and
// the lanes of a quarter warp, meet in different banks; with 16 j, which take two reads, the two change places after
// every 4 columns to the same end, and so do the two halves of a row of 16 weights after every 4 rows.
template <Layout LAYOUT, class Tile>
struct TensorShared {
  static constexpr bool first = LAYOUT == Layout::batch_first;
  static constexpr int x_padding = Tile::j == 4 ? 32 : Tile::j == 2 || Tile::j == 16 ? 16 : 8;
  static constexpr int x_pitch = first ? Tile::k * Tile::j + x_padding : Tile::n + 8;
  static constexpr bool swaps = Tile::k == 16;
  static constexpr int weight_pitch = swaps ? 16 : Tile::k + 8, weight_plane = Tile::r * weight_pitch + 16;
  static constexpr int x_size = first ? Tile::n * x_pitch : Tile::k * x_pitch;
  static constexpr int weight_size = Tile::j * weight_plane;
  static constexpr int step_size = x_size + weight_size;
  static constexpr int bytes = Tile::stages * step_size * static_cast<int>(sizeof(uint16_t));
  static_assert(x_pitch % 8 == 0 && x_size % 8 == 0 && weight_pitch % 8 == 0 && weight_plane % 8 == 0,
                "16-byte accesses of shared memory must be aligned");
  static_assert(bytes <= 227 * 1024, "no GPU has more shared memory for a block");

  KSMM_BOTH static int x_at(const Place& place) {
    if constexpr (!first) return place.column * x_pitch + place.row;
    const int j = Tile::j == 16 ? place.j ^ (place.column / 4 % 2 * 8) : place.j;
    return place.row * x_pitch + place.column * Tile::j + j;
  }
  KSMM_BOTH static int weight_at(const Place& place) {
    const int column = swaps ? place.column ^ (place.row / 4 % 2 * 8) : place.column;
    return x_size + place.j * weight_plane + place.row * weight_pitch + column;
  }
};

// piece: the elements of X that one copy moves: 8, or where such vectors are not aligned 4, 2, or 1 (which passes
// through registers). y_pairs: whether pairs of elements of Y are aligned.
template <class T>
struct TensorTask : Task<T> {
  int piece;
  bool y_pairs;
};

template <class T, Layout LAYOUT, class Tile>
struct TensorCopy {
  static constexpr bool first = LAYOUT == Layout::batch_first;
  static constexpr int vector = 8;
  using Shared = TensorShared<LAYOUT, Tile>;
  static constexpr Along along_x = first ? Along::features : Along::rows;
  template <int V>
  using MapX = TileMap<T, V, along_x, Tile::n, Tile::k, Tile::j, Tile::threads>;
  using MapByColumn = TileMap<T, vector, Along::columns, Tile::r, Tile::k, Tile::j, Tile::threads>;
  using MapByFeature = TileMap<T, vector, Along::features, Tile::r, Tile::k, Tile::j, Tile::threads>;
  static_assert(first || Tile::j == 1, "batch_last is contiguous along n: J is 1");

  // y_vector: the elements of Y that a thread writes at once.
  template <int Y_VECTOR>
  static TensorTask<T> make_tensor_task(const Problem& problem, const Operands& operands) {
    const Task<T> task = make_task<T, vector, Y_VECTOR>(problem, operands, Tile::n, Tile::r, Tile::j);
    const Strides extents = {task.a, task.batch, task.c, task.d};
    const bool four = has_vectors<T, 4>(task.x, task.x_strides, extents, along_x, Tile::j);
    const bool two = has_vectors<T, 2>(task.x, task.x_strides, extents, along_x, Tile::j);
    const Strides y_extents = {task.a, task.batch, task.b, task.d};
    const bool y_pairs = has_vectors<T, 2>(task.y, task.y_strides, y_extents, along_x, Tile::j);
    return {task, task.x_vectors ? 8 : four ? 4 : two ? 2 : 1, y_pairs};
  }

  // What the steps of a tile have in common.
  struct Source {
    const Bits<T>*x, *weight;  // at the tile's first column
    int left_n, left_r, left_j;
  };
  KSMM_BOTH static Source source_of(const Task<T>& task, const Origin& origin) {
    const Strides &xs = task.x_strides, &ws = task.weight_strides;
    return {task.x + origin.i * xs.i + origin.n * xs.row + origin.j * xs.j,
            task.weight + origin.i * ws.i + origin.r * ws.row + origin.j * ws.j, left(task.batch, origin.n, Tile::n),
            left(task.b, origin.r, Tile::r), left(task.d, origin.j, Tile::j)};
  }

  // Columns k .. k + Tile::k of X and W; complete after wait_for_groups and a barrier.
  KSMM_BOTH static void copy(Bits<T>* shared, const TensorTask<T>& task, const Source& source, int64_t k, int thread) {
    const int left_k = left(task.c, k, Tile::k);
    copy_x(shared, task, source, k, left_k, thread);
    const Strides& ws = task.weight_strides;
    const Bits<T>* w = source.weight + k * ws.column;
    const Place limits = {source.left_r, left_k, source.left_j};
    const auto at = [](const Place& place) { return Shared::weight_at(place); };
    if (!task.weight_along_columns)
      scatter_weight(shared, w, ws, limits, task.weight_vectors, opaque(thread));
    else if (task.weight_vectors)
      copy_vectors<MapByColumn, vector>(shared, w, ws, limits, thread, at);
    else
      copy_elements<MapByColumn>(shared, w, ws, limits, opaque(thread), at);
  }

  KSMM_BOTH static void copy_x(Bits<T>* shared, const TensorTask<T>& task, const Source& source, int64_t k, int left_k,
                               int thread) {
    const Strides& xs = task.x_strides;
    const Bits<T>* x = source.x + k * xs.column;
    const Place limits = {source.left_n, left_k, source.left_j};
    const auto at = [](const Place& place) { return Shared::x_at(place); };
    if (task.piece == 8)
      copy_vectors<MapX<8>, 8>(shared, x, xs, limits, thread, at);
    else if (task.piece == 4)
      copy_vectors<MapX<4>, 4>(shared, x, xs, limits, opaque(thread), at);
    else if (task.piece == 2)
      copy_vectors<MapX<2>, 2>(shared, x, xs, limits, opaque(thread), at);
    else
      copy_elements<MapX<8>>(shared, x, xs, limits, opaque(thread), at);
  }

  // Vectors of V that are contiguous and aligned, in shared memory too. A thread's vectors differ in the row alone (in
  // the column alone where they lie along rows), and by the same number from each to the next: one address and one
  // stride give them all.
  template <class Map, int V, class At>
  KSMM_BOTH static void copy_vectors(Bits<T>* shared, const Bits<T>* origin, const Strides& strides,
                                     const Place& limits, int thread, At at) {
    constexpr Place next = Map::first_place(Tile::threads % Map::vectors);
    constexpr bool rows = next.row > 0;
    constexpr int step = rows ? next.row : next.column;
    constexpr bool regular = next.j == 0 && (next.column == 0 || next.row == 0);
    static_assert(regular || Map::per_thread == 1 || V < 8, "threads must take whole rows (or columns) at a time");
    const Place place = Map::first_place(thread);
    const int64_t stride = step * (rows ? strides.row : strides.column);
    const Bits<T>* source = origin + offset(place, strides);
    const int valid = valid_elements<Map, V>(place, limits);
#pragma unroll
    for (int slot = 0; slot < Map::per_thread; ++slot) {
      const int index = slot * Tile::threads + thread;
      if (Map::vectors % Tile::threads != 0 && index >= Map::vectors) return;
      if constexpr (regular) {
        const Place here = {place.row + (rows ? slot * step : 0), place.column + (rows ? 0 : slot * step), place.j};
        const int count = (rows ? here.row < limits.row : here.column < limits.column) ? valid : 0;
        copy_vector<V>(shared + at(here), count == 0 ? origin : source + slot * stride, count);
      } else {
        const Place here = Map::first_place(index);
        const int count = here.row < limits.row ? valid_elements<Map, V>(here, limits) : 0;
        copy_vector<V>(shared + at(here), count == 0 ? origin : origin + offset(here, strides), count);
      }
    }
  }

  // How many elements of a vector lie inside, its row (column, where it lies along rows) aside.
  template <class Map, int V>
  KSMM_BOTH static int valid_elements(const Place& place, const Place& limits) {
    const int count = Map::along == Along::rows      ? limits.row - place.row
                      : Map::along == Along::columns ? (place.j < limits.j ? limits.column - place.column : 0)
                      : Tile::j >= V                 ? (place.column < limits.column ? limits.j - place.j : 0)
                                                     : (limits.column - place.column) * Tile::j - place.j;
    return count < 0 ? 0 : count < V ? count : V;
  }

  template <int V>
  KSMM_BOTH static void copy_vector(Bits<T>* shared, const Bits<T>* global, int valid) {
    const int bytes = valid * static_cast<int>(sizeof(Bits<T>));
#ifdef __CUDA_ARCH__
    copy_bytes<V* static_cast<int>(sizeof(Bits<T>))>(shared, global, bytes);
#else
    memset(shared, 0, V * sizeof(Bits<T>));
    memcpy(shared, global, static_cast<size_t>(bytes));
#endif
  }

  // For an operand of other strides or addresses, by way of registers.
  template <class Map, class At>
  KSMM_BOTH static void copy_elements(Bits<T>* shared, const Bits<T>* origin, const Strides& strides,
                                      const Place& limits, int thread, At at) {
#pragma unroll 1  // short code for the rare case
    for (int index = thread; index < Map::vectors; index += Tile::threads) {
      const Place place = Map::first_place(index);
      *reinterpret_cast<Vector<T, vector>*>(shared + at(place)) = Map::load_elements(place, origin, strides, limits);
    }
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
