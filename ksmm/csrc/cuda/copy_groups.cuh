// Groups of asynchronous copies to shared memory (compute capability 8.0 and newer). On the host, and before, copies
// are over at once.
#pragma once

#include "task.cuh"

namespace ksmm {

// Ends a group of this thread's copies, which may be empty.
KSMM_BOTH void commit_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most `pending` of this thread's committed groups are on their way.
template <int pending>
KSMM_BOTH void wait_for_groups() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}

}  // namespace ksmm
