// The family "shifted": 16-bit types in batch_last whose rows are no multiple of 16 bytes, in one pass.
#pragma once

#include <numeric>

#include "gemm.h"

namespace ksmm::hopper {

struct ShiftedSize {
  int columns, rows;  // r and n that a tile multiplies
};

// How many shifts, counted from multiples of `unit` numbers, rows of a stride have, and how many those of one (i, j).
inline int64_t shifted_period(int64_t stride, int64_t unit) { return unit / std::gcd(unit, stride); }
inline int64_t shifted_classes(int64_t stride, int64_t d, int64_t unit) {
  const int64_t period = shifted_period(stride, unit);
  return period / std::gcd(period, d);
}
// Shifts of Y are counted from sectors of 32 bytes, unless b is no multiple of as many classes as that makes.
inline int shifted_unit_of_y(int64_t batch, int64_t d, int64_t b) {
  return b % shifted_classes(batch, d, 16) == 0 ? 16 : 8;
}

cudaError_t launch_shifted_float16(const GemmView& view, ShiftedSize size, const Machine& machine, cudaStream_t stream);
cudaError_t launch_shifted_bfloat16(const GemmView& view, ShiftedSize size, const Machine& machine,
                                    cudaStream_t stream);
cudaError_t launch_shifted_single_float16(const GemmView& view, int columns, cudaStream_t stream);
cudaError_t launch_shifted_single_bfloat16(const GemmView& view, int columns, cudaStream_t stream);

Configurations shifted_configurations();

}  // namespace ksmm::hopper
