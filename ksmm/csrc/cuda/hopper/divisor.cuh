// Division without the instructions of one.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ksmm::hopper {

// Divides by a number that is known at launch, without a division: numerators below 2^31.
struct Divisor {
  uint32_t factor;  // 0 for a division by 1
  int shift;

  Divisor() = default;
  explicit Divisor(int by) : factor(0), shift(0) {
    int bits = 0;
    while (int64_t{1} << bits < by) ++bits;
    if (bits > 0) factor = static_cast<uint32_t>(((uint64_t{1} << (31 + bits)) + by - 1) / by), shift = bits - 1;
  }
  __host__ __device__ int divide(int numerator) const {
#ifdef __CUDA_ARCH__
    return factor == 0 ? numerator : static_cast<int>(__umulhi(static_cast<uint32_t>(numerator), factor) >> shift);
#else
    return factor == 0 ? numerator : static_cast<int>((static_cast<uint64_t>(numerator) * factor >> 32) >> shift);
#endif
  }
};

}  // namespace ksmm::hopper
