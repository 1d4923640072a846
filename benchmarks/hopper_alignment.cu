// How fast the copy engine reads and writes boxes of long rows (X and Y of batch_last) that begin at multiples of 16
// bytes, but not of a sector's 32; needs a GPU of compute capability 9.0:
//
//     nvcc -O3 -std=c++17 -arch=sm_90a hopper_alignment.cu -o hopper_alignment && ./hopper_alignment
//
// 4,096 rows of 25,080 16-bit numbers, so many numbers apart; boxes of 64 rows, side by side, from so many numbers
// behind the beginning of the rows on; a thread of one block on each multiprocessor has a ring of four of them copied.
// A line for each: TB/s of reads, and of writes. Boxes of 136 numbers in steps of 128 are read alone: what a tile needs
// whose rows begin anywhere.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

#include "../ksmm/csrc/cuda/hopper/copy.cuh"
#include "../ksmm/csrc/cuda/hopper/tensor_map.cu"
#include "hopper_limits.h"

using namespace ksmm::hopper;
using ksmm::shared_address;

constexpr int rows = 4096, numbers = 25080, box_rows = 64, blocks = 132, slots = 4;

struct Boxes {
  int step, bytes, of_a_row, begin;  // numbers from box to box, of a box, boxes of a row, numbers before the first
};

template <bool WRITES>
__global__ void copy_boxes(const __grid_constant__ CUtensorMap map, const Boxes boxes) {
  extern __shared__ unsigned char unaligned[];
  unsigned char* ring = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  __shared__ Barrier full[slots];
  for (Barrier& barrier : full) barrier.init(1);
  publish_barriers();
  Ring<slots> next, oldest;
  int under_way = 0;
  for (int box = blockIdx.x; box < boxes.of_a_row * (rows / box_rows); box += gridDim.x, next.advance()) {
    const int n = boxes.begin + box % boxes.of_a_row * boxes.step, row = box / boxes.of_a_row * box_rows;
    if constexpr (WRITES) {
      store(map, ring + next.slot * boxes.bytes, n, row);
      commit_stores();
      wait_for_store_reads<slots - 1>();
    } else {
      if (++under_way > slots) full[oldest.slot].wait(oldest.phase), oldest.advance(), --under_way;
      full[next.slot].arrive_expecting(boxes.bytes);
      load(ring + next.slot * boxes.bytes, map, full[next.slot], Keep::normal, n, row);
    }
  }
  for (; !WRITES && under_way > 0; --under_way) full[oldest.slot].wait(oldest.phase), oldest.advance();
  if (WRITES) wait_for_store_reads<0>();
}

double terabytes(bool writes, uint16_t* data, int64_t stride, int begin, int width, int step) {
  const TensorBox box = {2, {numbers, rows}, {1, stride}, {width, box_rows}};
  CUtensorMap map;
  check(describe_tensor(&map, data, ksmm::Dtype::float16, box, 0));
  const Boxes boxes = {step, width * box_rows * 2, (numbers - begin) / step, begin};
  const auto kernel = writes ? copy_boxes<true> : copy_boxes<false>;
  const int shared_bytes = slots * boxes.bytes + 1024;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  const float milliseconds = least_milliseconds([&] { kernel<<<blocks, 1, shared_bytes>>>(map, boxes); });
  check(cudaGetLastError());
  return 2.0 * boxes.of_a_row * step * rows / milliseconds * 1e-9;
}

int main() {
  uint16_t* data = nullptr;
  check(cudaMalloc(&data, int64_t{rows} * 25104 * 2));
  check(cudaMemset(data, 0, int64_t{rows} * 25104 * 2));
  for (const int64_t stride : {25088, 25096})
    for (const int begin : {0, 8})
      for (const int width : {64, 128, 136, 248, 256}) {
        const int step = width == 136 ? 128 : width;
        std::printf("rows %ld apart, from %d on, boxes of %d: reads %.2f", static_cast<long>(stride), begin, width,
                    terabytes(false, data, stride, begin, width, step));
        if (step == width) std::printf(", writes %.2f", terabytes(true, data, stride, begin, width, step));
        std::printf(" TB/s\n");
      }
  check(cudaFree(data));
}
