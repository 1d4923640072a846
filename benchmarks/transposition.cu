// How fast batches of matrices are transposed, against a plain copy; needs a GPU of compute capability 9.0:
//
//     nvcc -O3 -std=c++17 -arch=sm_90a -DKSMM_SM90A transposition.cu ../ksmm/csrc/cuda/{transpose,machine}.cu \
//         -o transposition && ./transposition
//
// A line for each shape, in TB/s, read and written: 0.8 GB of 16-bit matrices, or one long one of float32, as the
// kernel in three passes has them.
#include <cuda_runtime.h>

#include <cstdio>
#include <utility>

#include "../ksmm/csrc/cuda/transpose.cuh"
#include "hopper_limits.h"

using namespace ksmm;

constexpr size_t room = size_t{3} << 30;

void measure(int element_bytes, int64_t matrices, int64_t rows, int64_t columns, const void* source, void* target) {
  const Transposition task = {element_bytes, source, target, matrices, rows, columns};
  check(transpose(task, nullptr));
  const float least = least_milliseconds([&] { check(transpose(task, nullptr)); });
  const double bytes = 2.0 * static_cast<double>(element_bytes * matrices * rows * columns);
  std::printf("%2d bits, %lld x %lld: %.2f\n", 8 * element_bytes, static_cast<long long>(rows),
              static_cast<long long>(columns), bytes / least / 1e9);
}

int main() {
  void *source, *target;
  check(cudaMalloc(&source, room));
  check(cudaMalloc(&target, room));
  check(cudaMemset(source, 1, room));
  const float copy = least_milliseconds([&] { check(cudaMemcpyAsync(target, source, room / 4, cudaMemcpyDefault)); });
  std::printf("cudaMemcpy: %.2f\n", 2 * (room / 4) / copy / 1e9);
  constexpr int64_t shapes[][2] = {{256, 16}, {16, 256}, {64, 128}, {32, 1024}, {64, 1024}, {4, 1024},
                                   {24, 256}, {256, 24}, {48, 192}, {192, 48},  {96, 384},  {384, 96},
                                   {16, 384}, {24, 768}, {96, 24},  {12, 256},  {20, 12},   {100, 36}};
  for (const auto& [rows, columns] : shapes) measure(2, 400'000'000 / (rows * columns), rows, columns, source, target);
  for (const auto& [rows, columns] : {std::pair{25088, 6144}, {6144, 25088}, {12544, 20480}, {25088, 1000}})
    measure(4, 1, rows, columns, source, target);
  check(cudaFree(source));
  check(cudaFree(target));
}
