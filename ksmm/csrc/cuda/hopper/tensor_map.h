// Describes a tensor in device memory to the copy engine (TMA). Host code.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "../../ks_matmul.h"

namespace ksmm::hopper {

constexpr int most_dimensions = 5;

// A box of a strided tensor. The fastest dimension comes first and is contiguous; strides, in elements, are those of
// the others, and are multiples of 16 bytes. A dimension of size 1 may have any stride.
struct TensorBox {
  int dimensions;
  int64_t sizes[most_dimensions];
  int64_t strides[most_dimensions];  // strides[0] is 1
  int box[most_dimensions];          // at most 256 each; box[0] is a multiple of 16 bytes
};

// Whether the copy engine takes the tensor: the address and the strides are multiples of 16 bytes.
bool can_describe(const void* data, Dtype dtype, const TensorBox& tensor);

// Fills `map`. swizzle: the bytes that a row of the box may have (32, 64, 128), or 0 for none.
// Returns cudaErrorNotSupported where the driver knows no tensor maps, and cudaErrorInvalidValue where it refuses.
cudaError_t describe_tensor(CUtensorMap* map, const void* data, Dtype dtype, const TensorBox& tensor, int swizzle);

}  // namespace ksmm::hopper
