// Transposes many small matrices of 16-bit elements through shared memory, two elements an access.
#include <algorithm>

#include "configuration.h"
#include "hopper/overlap.cuh"
#include "transpose.cuh"

namespace ksmm {
namespace {

constexpr int threads = 256;
constexpr int tile_elements = 4096;  // of a block, all of them on their way at once; twice as many take a fifth longer

// Division of a number below 2^16 by a constant one, as a multiplication.
struct Divisor {
  uint32_t value, reciprocal;
  explicit Divisor(int64_t divisor)
      : value(static_cast<uint32_t>(divisor)), reciprocal(static_cast<uint32_t>((int64_t{1} << 32) / divisor + 1)) {}
  __device__ uint32_t operator()(uint32_t number) const { return value == 1 ? number : __umulhi(number, reciprocal); }
};

// A block takes `batch` whole matrices, or a tile of one.
struct TransposeTask {
  Transposition of;
  Divisor tile_rows, tile_columns;
  int batch, pitch, tiles_down, tiles_across;
};

// Where a tile begins, and how much of it there is.
struct Tile {
  int64_t matrix, p, q;
  uint32_t matrices, rows, columns;
};

__device__ Tile tile_of(const TransposeTask& task, int64_t block) {
  const int64_t tiles = static_cast<int64_t>(task.tiles_down) * task.tiles_across;
  const int64_t group = block / tiles;
  const int tile = static_cast<int>(block - group * tiles), down = tile / task.tiles_across;
  Tile result;
  result.matrix = group * task.batch;
  result.p = static_cast<int64_t>(down) * task.tile_rows.value;
  result.q = static_cast<int64_t>(tile - down * task.tiles_across) * task.tile_columns.value;
  const auto rest = [](int64_t size, int64_t begin, int64_t most) {
    return static_cast<uint32_t>(min(size - begin, most));
  };
  result.matrices = rest(task.of.matrices, result.matrix, task.batch);
  result.rows = rest(task.of.rows, result.p, task.tile_rows.value);
  result.columns = rest(task.of.columns, result.q, task.tile_columns.value);
  return result;
}

template <int U>
struct alignas(2 * U) Unit {
  uint16_t elements[U];
};

// U: neighbours that are read, and written, at once; 2 of them may lie in different rows, more lie in one.
//
// Shared memory holds each tile transposed, its rows padded to an odd number of words, which keeps bank conflicts few.
template <int U>
__device__ void read_tile(uint16_t* shared, const TransposeTask& task, const Tile& tile) {
  constexpr int units = tile_elements / threads / U;
  const int64_t wide = task.of.columns;
  const bool whole = task.tiles_across == 1;  // rows follow each other without a gap
  const uint16_t* source = task.of.source + (tile.matrix * task.of.rows + tile.p) * wide + tile.q;
  const uint32_t width = task.tile_columns.value, rows = tile.matrices * tile.rows;
  Unit<U> read[units] = {};
#pragma unroll
  for (int n = 0; n < units; ++n) {
    const uint32_t element = U * (n * threads + threadIdx.x), p = task.tile_columns(element), q = element - p * width;
    if (p < rows && q < tile.columns)
      read[n] = *reinterpret_cast<const Unit<U>*>(source + (whole ? element : p * wide + q));
  }
#pragma unroll
  for (int n = 0; n < units; ++n) {
    const uint32_t element = U * (n * threads + threadIdx.x), p = task.tile_columns(element), q = element - p * width;
    if (p >= rows || q >= tile.columns) continue;
    const auto place = [&](uint32_t row, uint32_t column) {
      const uint32_t m = task.batch == 1 ? 0 : task.tile_rows(row);
      return shared + (m * width + column) * task.pitch + row - m * task.tile_rows.value;
    };
    uint16_t* first = place(p, q);
#pragma unroll
    for (int e = 0; e < U; ++e) {
      if (U == 2 && e == 1 && q + 1 == width)
        *place(p + 1, 0) = read[n].elements[e];
      else
        first[e * task.pitch] = read[n].elements[e];
    }
  }
}

template <int U>
__device__ void write_tile(const uint16_t* shared, const TransposeTask& task, const Tile& tile) {
  const int64_t high = task.of.rows;
  const bool whole = task.tiles_down == 1;
  uint16_t* destination = task.of.destination + (tile.matrix * task.of.columns + tile.q) * high + tile.p;
  const uint32_t height = task.tile_rows.value, columns = tile.matrices * tile.columns;
#pragma unroll
  for (int n = 0; n < tile_elements / threads / U; ++n) {
    const uint32_t element = U * (n * threads + threadIdx.x), q = task.tile_rows(element), p = element - q * height;
    if (q >= columns || p >= tile.rows) continue;
    const uint16_t* first = shared + q * task.pitch + p;
    Unit<U> unit;
#pragma unroll
    for (int e = 0; e < U; e += 2) {
      if (U == 2) {
        unit.elements[0] = first[0], unit.elements[1] = p + 1 < height ? first[1] : shared[(q + 1) * task.pitch];
      } else {
        const uint32_t pair = *reinterpret_cast<const uint32_t*>(first + e);
        unit.elements[e] = static_cast<uint16_t>(pair), unit.elements[e + 1] = static_cast<uint16_t>(pair >> 16);
      }
    }
    *reinterpret_cast<Unit<U>*>(destination + (whole ? element : q * high + p)) = unit;
  }
}

template <int U>
__global__ void __launch_bounds__(threads) transpose_kernel(const TransposeTask task) {
  extern __shared__ __align__(16) uint16_t shared[];
  hopper::wait_for_kernels_before();
  const Tile tile = tile_of(task, blockIdx.x);
  read_tile<U>(shared, task, tile);
  __syncthreads();
  write_tile<U>(shared, task, tile);
}

// Whole sides where they fit, so that what is read and written is contiguous.
void choose_tile(const Transposition& of, int64_t* rows, int64_t* columns) {
  *rows = of.rows, *columns = of.columns;
  while (*rows * *columns > tile_elements) {
    int64_t& longer = *rows > *columns ? *rows : *columns;
    longer = longer > 128 ? (longer / 2 + 63) / 64 * 64 : 64;
  }
}

int unit_of(const Transposition& of) {
  const auto fits = [&](int unit) {
    const auto aligned = [&](const void* address) { return reinterpret_cast<uintptr_t>(address) % (2 * unit) == 0; };
    return of.rows % unit == 0 && of.columns % unit == 0 && aligned(of.source) && aligned(of.destination);
  };
  return fits(8) ? 8 : fits(4) ? 4 : 2;
}

}  // namespace

bool can_transpose(const Transposition& of) {
  const auto aligned = [](const void* address) { return reinterpret_cast<uintptr_t>(address) % 4 == 0; };
  return aligned(of.source) && aligned(of.destination) && of.rows * of.columns % 2 == 0 &&
         (of.rows <= 64 || of.rows % 2 == 0) && (of.columns <= 64 || of.columns % 2 == 0);
}

cudaError_t transpose(const Transposition& of, cudaStream_t stream) {
  int64_t rows = 0, columns = 0;
  choose_tile(of, &rows, &columns);
  const bool whole = rows == of.rows && columns == of.columns;
  const int64_t batch = whole ? std::max<int64_t>(1, tile_elements / (rows * columns)) : 1;
  const int64_t even = (rows + 1) / 2 * 2, pitch = even / 2 % 2 == 1 ? even : even + 2;
  const int64_t down = (of.rows + rows - 1) / rows, across = (of.columns + columns - 1) / columns;
  const TransposeTask task = {of,
                              Divisor(rows),
                              Divisor(columns),
                              static_cast<int>(batch),
                              static_cast<int>(pitch),
                              static_cast<int>(down),
                              static_cast<int>(across)};
  const int64_t blocks = (of.matrices + batch - 1) / batch * down * across;
  const int unit = unit_of(of);
  const auto kernel = unit == 8 ? transpose_kernel<8> : unit == 4 ? transpose_kernel<4> : transpose_kernel<2>;
  return hopper::launch_overlapping(kernel, blocks, threads, batch * columns * pitch * 2, 1, stream, task);
}

bool transpose_cuda(const void* source, void* destination, int64_t matrices, int64_t rows, int64_t columns,
                    void* stream, int* error) {
  const Transposition task = {static_cast<const uint16_t*>(source), static_cast<uint16_t*>(destination), matrices, rows,
                              columns};
  Machine machine;
  *error = current_machine(&machine);
  // launches that overlap are of compute capability 9.0 on
  if (*error == cudaSuccess && (machine.capability < 90 || !can_transpose(task))) return false;
  if (*error == cudaSuccess) *error = transpose(task, static_cast<cudaStream_t>(stream));
  return true;
}

}  // namespace ksmm
