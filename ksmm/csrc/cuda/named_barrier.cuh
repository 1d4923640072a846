// A barrier of some of a block's threads.
#pragma once

namespace ksmm {

// A barrier of `threads` threads of the block, under a number from 1 to 15 (0 is __syncthreads).
__device__ inline void synchronize(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

}  // namespace ksmm
