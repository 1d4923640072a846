// What a block does to transpose many small matrices, or a tile of one, through shared memory.
//
// Both steps are functions of the thread's index that run on the host too, where tests/cuda/emulate_transposition.cu
// executes them in turn.
#pragma once

#include "bytes.cuh"
#include "hopper/overlap.cuh"
#include "task.cuh"
#include "transpose.cuh"

namespace ksmm::transposition {

constexpr int word = 4;  // bytes of a bank of shared memory

// What a thread moves, all of it on its way at once: twice as much takes a fifth longer in 16 bits, and less by 4 %
// where the rows of 32-bit matrices are long.
constexpr int bytes_of_thread(int element_bytes) { return element_bytes == 2 ? 32 : 64; }

// Division of a number below 2^16 by a constant one, as a multiplication.
struct SmallDivisor {
  uint32_t value, reciprocal;
  explicit SmallDivisor(int64_t divisor)
      : value(static_cast<uint32_t>(divisor)), reciprocal(static_cast<uint32_t>((int64_t{1} << 32) / divisor + 1)) {}
  KSMM_BOTH uint32_t operator()(uint32_t number) const {
    return value == 1 ? number : static_cast<uint32_t>(static_cast<uint64_t>(number) * reciprocal >> 32);
  }
};

// Which unit of a tile a thread moves: `wide` neighbours of a line, the same of the next of `lines` lines, and then the
// next neighbours. Few lines and few neighbours at a time are few bank conflicts in both directions.
struct Spread {
  SmallDivisor wide, lines;
  Spread(int64_t units_of_line, int64_t lines_) : wide(most_neighbours(units_of_line)), lines(lines_) {}
  KSMM_BOTH void place(uint32_t number, uint32_t* line, uint32_t* unit) const {
    const uint32_t rest = wide(number), group = lines(rest);
    *line = rest - group * lines.value;
    *unit = group * wide.value + number - rest * wide.value;
  }

 private:
  static int64_t most_neighbours(int64_t units) {
    if (units <= 8) return units;
    return units % 8 == 0 ? 8 : units % 4 == 0 ? 4 : units % 2 == 0 ? 2 : units;
  }
};

// A block takes `batch` whole matrices, or a tile of one.
struct TransposeTask {
  Transposition of;
  SmallDivisor tile_rows, tile_columns;
  int batch, pitch, tiles_down, tiles_across;
  Spread read, written;  // units of pairs of rows, and of single columns; for pairs alone
};

// Where a tile begins, and how much of it there is.
struct Tile {
  int64_t matrix, p, q;
  uint32_t matrices, rows, columns;
};

KSMM_BOTH Tile tile_of(const TransposeTask& task, int64_t block) {
  const int64_t tiles = static_cast<int64_t>(task.tiles_down) * task.tiles_across;
  const int64_t group = block / tiles;
  const int tile = static_cast<int>(block - group * tiles), down = tile / task.tiles_across;
  Tile result;
  result.matrix = group * task.batch;
  result.p = static_cast<int64_t>(down) * task.tile_rows.value;
  result.q = static_cast<int64_t>(tile - down * task.tiles_across) * task.tile_columns.value;
  const auto rest = [](int64_t size, int64_t begin, int64_t most) {
    return static_cast<uint32_t>(size - begin < most ? size - begin : most);
  };
  result.matrices = rest(task.of.matrices, result.matrix, task.batch);
  result.rows = rest(task.of.rows, result.p, task.tile_rows.value);
  result.columns = rest(task.of.columns, result.q, task.tile_columns.value);
  return result;
}

template <class Element, int U>
struct alignas(sizeof(Element) * U) Unit {
  Element elements[U];
};

// How many units of U elements a thread moves.
template <class Element, int U>
constexpr int units_of = bytes_of_thread(sizeof(Element)) / static_cast<int>(sizeof(Element)) / U;

// U: neighbours that are read, and written, at once. They lie in one row, but for the two 16-bit elements of a word.
template <class Element, int U>
constexpr bool may_straddle = sizeof(Element) < word && U * sizeof(Element) == word;

// Shared memory holds each tile transposed, its rows padded to an odd number of words, which keeps bank conflicts few.
template <class Element, int U>
KSMM_BOTH void read_tile(Element* shared, const TransposeTask& task, const Tile& tile, int thread, int threads) {
  constexpr int units = units_of<Element, U>;
  const int64_t wide = task.of.columns;
  const bool whole = task.tiles_across == 1;  // rows follow each other without a gap
  const auto* source =
      static_cast<const Element*>(task.of.source) + (tile.matrix * task.of.rows + tile.p) * wide + tile.q;
  const uint32_t width = task.tile_columns.value, rows = tile.matrices * tile.rows;
  Unit<Element, U> read[units] = {};
#pragma unroll
  for (int n = 0; n < units; ++n) {
    const uint32_t element = U * (n * threads + thread), p = task.tile_columns(element), q = element - p * width;
    if (p < rows && q < tile.columns)
      read[n] = *reinterpret_cast<const Unit<Element, U>*>(source + (whole ? element : p * wide + q));
  }
#pragma unroll
  for (int n = 0; n < units; ++n) {
    const uint32_t element = U * (n * threads + thread), p = task.tile_columns(element), q = element - p * width;
    if (p >= rows || q >= tile.columns) continue;
    const auto place = [&](uint32_t row, uint32_t column) {
      const uint32_t m = task.batch == 1 ? 0 : task.tile_rows(row);
      return shared + (m * width + column) * task.pitch + row - m * task.tile_rows.value;
    };
    Element* first = place(p, q);
#pragma unroll
    for (int e = 0; e < U; ++e) {
      if (may_straddle<Element, U> && e == 1 && q + 1 == width)
        *place(p + 1, 0) = read[n].elements[e];
      else
        first[e * task.pitch] = read[n].elements[e];
    }
  }
}

template <class Element, int U>
KSMM_BOTH void write_tile(const Element* shared, const TransposeTask& task, const Tile& tile, int thread, int threads) {
  const int64_t high = task.of.rows;
  const bool whole = task.tiles_down == 1;
  auto* destination =
      static_cast<Element*>(task.of.destination) + (tile.matrix * task.of.columns + tile.q) * high + tile.p;
  const uint32_t height = task.tile_rows.value, columns = tile.matrices * tile.columns;
#pragma unroll
  for (int n = 0; n < units_of<Element, U>; ++n) {
    const uint32_t element = U * (n * threads + thread), q = task.tile_rows(element), p = element - q * height;
    if (q >= columns || p >= tile.rows) continue;
    const Element* first = shared + q * task.pitch + p;
    Unit<Element, U> unit;
    if constexpr (may_straddle<Element, U>) {
      unit.elements[0] = first[0], unit.elements[1] = p + 1 < height ? first[1] : shared[(q + 1) * task.pitch];
    } else {
#pragma unroll
      for (int e = 0; e < U; e += word / sizeof(Element))
        *reinterpret_cast<uint32_t*>(unit.elements + e) = *reinterpret_cast<const uint32_t*>(first + e);
    }
    *reinterpret_cast<Unit<Element, U>*>(destination + (whole ? element : q * high + p)) = unit;
  }
}

// Of 16-bit elements two rows are read at a time, so that what goes to shared memory are whole words, too, each of two
// neighbours of the transposed tile. Element by element there would be more bank conflicts than memory gives time for.
template <int U>
KSMM_BOTH void read_pairs(uint32_t* shared, const TransposeTask& task, const Tile& tile, int thread, int threads) {
  constexpr int units = units_of<uint16_t, U> / 2;
  const int64_t wide = task.of.columns;
  const auto* source =
      static_cast<const uint16_t*>(task.of.source) + (tile.matrix * task.of.rows + tile.p) * wide + tile.q;
  const uint32_t width = task.tile_columns.value, half = task.tile_rows.value / 2, pitch = task.pitch / 2;
  Unit<uint32_t, U / 2> upper[units] = {}, lower[units] = {};
  uint32_t pair[units], first[units];
  bool there[units];
#pragma unroll
  for (int n = 0; n < units; ++n) {
    task.read.place(n * threads + thread, &pair[n], &first[n]);
    first[n] *= U;
    there[n] = 2 * pair[n] < tile.matrices * tile.rows && first[n] < tile.columns;
    if (!there[n]) continue;
    const uint16_t* row = source + 2 * pair[n] * wide + first[n];
    upper[n] = *reinterpret_cast<const Unit<uint32_t, U / 2>*>(row);
    lower[n] = *reinterpret_cast<const Unit<uint32_t, U / 2>*>(row + wide);
  }
#pragma unroll
  for (int n = 0; n < units; ++n) {
    if (!there[n]) continue;
    const uint32_t m = task.batch == 1 ? 0 : task.tile_rows(2 * pair[n]);
    uint32_t* place = shared + (m * width + first[n]) * pitch + pair[n] - m * half;
#pragma unroll
    for (int e = 0; e < U; ++e)
      place[e * pitch] = halves_of(upper[n].elements[e / 2], lower[n].elements[e / 2], e % 2 != 0);
  }
}

template <int U>
KSMM_BOTH void write_pairs(const uint32_t* shared, const TransposeTask& task, const Tile& tile, int thread,
                           int threads) {
  const int64_t high = task.of.rows;
  auto* destination =
      static_cast<uint16_t*>(task.of.destination) + (tile.matrix * task.of.columns + tile.q) * high + tile.p;
#pragma unroll
  for (int n = 0; n < units_of<uint16_t, U>; ++n) {
    uint32_t q, p;
    task.written.place(n * threads + thread, &q, &p);
    p *= U;
    if (q >= tile.matrices * tile.columns || p >= tile.rows) continue;
    const uint32_t* words = shared + (q * task.pitch + p) / 2;
    Unit<uint32_t, U / 2> unit;
#pragma unroll
    for (int e = 0; e < U / 2; ++e) unit.elements[e] = words[e];
    *reinterpret_cast<Unit<uint32_t, U / 2>*>(destination + q * high + p) = unit;
  }
}

template <class Element, int U>
constexpr bool by_pairs = (sizeof(Element) < word) && (U * sizeof(Element) > word);

// Step 1: a tile to shared memory, transposed; step 2, after a barrier: to device memory.
template <class Element, int U>
KSMM_BOTH void read(char* memory, const TransposeTask& task, const Tile& tile, int thread, int threads) {
  if constexpr (by_pairs<Element, U>)
    read_pairs<U>(reinterpret_cast<uint32_t*>(memory), task, tile, thread, threads);
  else
    read_tile<Element, U>(reinterpret_cast<Element*>(memory), task, tile, thread, threads);
}
template <class Element, int U>
KSMM_BOTH void write(const char* memory, const TransposeTask& task, const Tile& tile, int thread, int threads) {
  if constexpr (by_pairs<Element, U>)
    write_pairs<U>(reinterpret_cast<const uint32_t*>(memory), task, tile, thread, threads);
  else
    write_tile<Element, U>(reinterpret_cast<const Element*>(memory), task, tile, thread, threads);
}

constexpr int most_threads = 384;

template <class Element, int U>
__global__ void __launch_bounds__(most_threads) transpose_kernel(const TransposeTask task) {
  extern __shared__ __align__(16) char memory[];
  const auto thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  hopper::wait_for_kernels_before();
  const Tile tile = tile_of(task, blockIdx.x);
  read<Element, U>(memory, task, tile, thread, threads);
  __syncthreads();
  write<Element, U>(memory, task, tile, thread, threads);
}

}  // namespace ksmm::transposition
