// Transposes many small matrices of 16-bit or 32-bit elements at the speed of a copy.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ksmm {

// destination[m][q][p] = source[m][p][q] for m < matrices, p < rows, q < columns.
//
// Both are contiguous.
struct Transposition {
  int element_bytes;  // 2 or 4
  const void* source;
  void* destination;
  int64_t matrices, rows, columns;
};

// Whether it can be done: both addresses are multiples of 4 bytes; of 16-bit elements, rows * columns is even, and so
// is what exceeds 64.
bool can_transpose(const Transposition& task);

// Returns the launch's error.
cudaError_t transpose(const Transposition& task, cudaStream_t stream);

}  // namespace ksmm
