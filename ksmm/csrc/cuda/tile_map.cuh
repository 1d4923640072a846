// Which elements of a tile each thread moves; reading and writing them with care for the edges. Runs on host and
// device.
#pragma once

#include "task.cuh"

namespace ksmm {

// A tile of ROWS x COLUMNS x J elements, cut into vectors of V along ALONG. Vector v belongs to thread v % THREADS;
// consecutive vectors, hence consecutive threads, follow device memory.
template <class T, int V, Along ALONG, int ROWS, int COLUMNS, int J, int THREADS>
struct TileMap {
  static constexpr Along along = ALONG;
  static constexpr int vectors = ROWS * COLUMNS * J / V;
  static constexpr int per_thread = (vectors + THREADS - 1) / THREADS;
  static_assert(ALONG != Along::rows || (ROWS % V == 0 && J == 1), "vectors along rows need whole ones, and J = 1");
  static_assert(ALONG != Along::columns || COLUMNS % V == 0, "vectors along columns need whole ones");
  static_assert(ALONG != Along::features || (COLUMNS * J % V == 0 && (J % V == 0 || V % J == 0)),
                "a vector along features must not straddle two rows, nor two columns in part");

  KSMM_BOTH static constexpr Place first_place(int vector) {
    if constexpr (ALONG == Along::rows) return {vector % (ROWS / V) * V, vector / (ROWS / V), 0};
    if constexpr (ALONG == Along::columns) {
      // j before rows: the weights of neighbouring j go to neighbouring words of shared memory
      const int rest = vector / (COLUMNS / V);
      return {rest / J, vector % (COLUMNS / V) * V, rest % J};
    }
    const int feature = vector % (COLUMNS * J / V) * V;
    return {vector / (COLUMNS * J / V), feature / J, feature % J};
  }

  KSMM_BOTH static Place place_of(const Place& first, int element) {
    if constexpr (ALONG == Along::rows) return {first.row + element, first.column, first.j};
    if constexpr (ALONG == Along::columns) return {first.row, first.column + element, first.j};
    if constexpr (J >= V) return {first.row, first.column, first.j + element};
    return {first.row, first.column + element / J, element % J};
  }

  // A vector at the edge, or one whose elements are apart or not aligned. What lies outside `limits` is 0 and is not
  // read.
  KSMM_BOTH static Vector<T, V> load_elements(const Place& first, const Bits<T>* origin, const Strides& strides,
                                              const Place& limits) {
    Vector<T, V> vector = {};
#pragma unroll
    for (int element = 0; element < V; ++element) {
      const Place place = place_of(first, element);
      if (inside(place, limits)) vector.bits[element] = read_only(origin + offset(place, strides));
    }
    return vector;
  }

  // Copies those elements of a vector that lie inside the limits; its elements are neighbours in `target`.
  KSMM_BOTH static void copy_elements(Bits<T>* target, const Place& first, const Bits<T>* origin,
                                      const Strides& strides, const Place& limits) {
#pragma unroll 1  // short code for the rare case
    for (int element = 0; element < V; ++element) {
      const Place place = place_of(first, element);
      if (inside(place, limits)) target[element] = read_only(origin + offset(place, strides));
    }
  }

  // whole_vectors: has_vectors of this operand.
  KSMM_BOTH static bool is_whole(const Place& first, const Place& limits, bool whole_vectors) {
    return whole_vectors && inside(place_of(first, V - 1), limits);
  }

  KSMM_BOTH static Vector<T, V> load(const Place& first, const Bits<T>* origin, const Strides& strides,
                                     const Place& limits, bool whole_vectors) {
    // opaque: an address costs less to compute again than to keep in registers through the products
    const Strides own = {0, opaque(strides.row), opaque(strides.column), opaque(strides.j)};
    if (is_whole(first, limits, whole_vectors)) return load_vector<T, V>(origin + offset(first, own));
    return load_elements(first, origin, own, limits);
  }
};

// Writes a vector of Y; place_of(element) says where in the tile each of its elements is. What lies outside `limits` is
// not written. whole_vectors: has_vectors of Y.
template <class T, int V, class PlaceOf>
KSMM_BOTH void store_places(Bits<T>* origin, const Strides& strides, const Place& limits, bool whole_vectors,
                            const Vector<T, V>& vector, PlaceOf place_of) {
  if (whole_vectors && inside(place_of(V - 1), limits)) {
    store_global<T, V>(origin + offset(place_of(0), strides), vector);
    return;
  }
#pragma unroll 1  // short code for the rare case
  for (int element = 0; element < V; ++element) {
    const Place place = place_of(element);
    if (inside(place, limits)) origin[offset(place, strides)] = element_of(vector, element);
  }
}

}  // namespace ksmm
