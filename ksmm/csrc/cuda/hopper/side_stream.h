// A second stream for the time of one call, whose work runs beside the call's own. Host code.
#pragma once

#include <cuda_runtime.h>

namespace ksmm::hopper {

// Borrowed for as long as the object lives, and lent to another call afterwards, whose work then comes after this
// one's. Whoever enqueues work here joins it before that.
class SideStream {
 public:
  // Of the current device, with the highest priority; part of the same capture as the main stream where that is
  // captured. If error() is not cudaSuccess, there is none.
  explicit SideStream(cudaStream_t main);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  struct Lane;  // a stream and its events

  cudaError_t error() const { return error_; }
  cudaStream_t stream() const;
  // What is enqueued here from now on waits for all that is on the main stream so far.
  cudaError_t wait_for_main();
  // What is enqueued on the main stream from now on waits for all that is here so far.
  cudaError_t join();

 private:
  cudaStream_t main_;
  Lane* lane_ = nullptr;
  cudaError_t error_;
};

}  // namespace ksmm::hopper
