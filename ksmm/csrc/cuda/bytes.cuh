// Words of 32 bits by their bytes, and an address in shared memory as instructions take it.
#pragma once

#include <cstdint>

namespace ksmm {

// Bytes of two words, by their numbers (those of the second word begin at 4), lowest first.
__host__ __device__ inline uint32_t permute_bytes(uint32_t first, uint32_t second, uint32_t numbers) {
#ifdef __CUDA_ARCH__
  return __byte_perm(first, second, numbers);
#else
  const uint64_t both = static_cast<uint64_t>(second) << 32 | first;
  uint32_t word = 0;
  for (int byte = 0; byte < 4; ++byte)
    word |= static_cast<uint32_t>(both >> 8 * (numbers >> 4 * byte & 7) & 255) << 8 * byte;
  return word;
#endif
}

// The lower, or upper, halves of two words.
__host__ __device__ inline uint32_t halves_of(uint32_t first, uint32_t second, bool upper) {
  return permute_bytes(first, second, upper ? 0x7632 : 0x5410);
}

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

}  // namespace ksmm
