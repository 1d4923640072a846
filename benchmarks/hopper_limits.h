// What the programs that measure the hardware share.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

inline void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

// The shortest of five runs of what `launch` enqueues, in milliseconds.
template <class Launch>
float least_milliseconds(Launch launch) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  float least = 1e9;
  for (int repetition = 0; repetition < 5; ++repetition) {
    check(cudaEventRecord(begin));
    launch();
    check(cudaEventRecord(end));
    check(cudaDeviceSynchronize());
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end));
    least = std::min(least, milliseconds);
  }
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  return least;
}
