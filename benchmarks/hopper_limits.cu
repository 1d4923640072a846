// Two properties of the hardware that docs/kernel.md rests on; needs a GPU of compute capability 9.0:
//
//     nvcc -O2 -std=c++17 -arch=sm_90a hopper_limits.cu -o hopper_limits && ./hopper_limits
//
// 1. How exact sums of float32 products are that the matrix units make of three TF32 products each, by how many k are
//    accumulated inside them before a float32 addition outside.
// 2. How fast the copy engine (TMA) reads boxes with short rows.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "../ksmm/csrc/cuda/hopper/copy.cuh"
#include "../ksmm/csrc/cuda/hopper/tensor_map.cu"
#include "hopper_limits.h"

using namespace ksmm::hopper;

__device__ float rounded(float value) { return __uint_as_float((__float_as_uint(value) + 0x1000) & 0xffffe000); }

__device__ void multiply(float (&sums)[4], const float (&a)[4], const float (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
        "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

// C (16 x 8) = A (16 x K) times the transpose of B (8 x K), by one warp; a fresh accumulator every `steps` times 8 k.
__global__ void product(const float* a, const float* b, float* c, int size, int steps) {
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  float total[4] = {}, sums[4] = {};
  for (int k = 0; k < size; k += 8) {
    const float from_a[4] = {a[g * size + k + t], a[(g + 8) * size + k + t], a[g * size + k + t + 4],
                             a[(g + 8) * size + k + t + 4]};
    const float from_b[2] = {b[g * size + k + t], b[g * size + k + t + 4]};
    float a_high[4], a_low[4], b_high[2], b_low[2];
    for (int n = 0; n < 4; ++n) a_high[n] = rounded(from_a[n]), a_low[n] = rounded(from_a[n] - a_high[n]);
    for (int n = 0; n < 2; ++n) b_high[n] = rounded(from_b[n]), b_low[n] = rounded(from_b[n] - b_high[n]);
    multiply(sums, a_low, b_high);
    multiply(sums, a_high, b_low);
    multiply(sums, a_high, b_high);
    if ((k / 8 + 1) % steps != 0 && k + 8 < size) continue;
    for (int n = 0; n < 4; ++n) total[n] += sums[n], sums[n] = 0;
  }
  for (int n = 0; n < 4; ++n) c[(g + n / 2 * 8) * 8 + 2 * t + n % 2] = total[n];
}

void measure_rounding() {
  std::mt19937 engine(std::random_device{}());
  std::uniform_real_distribution<float> uniform(-1, 1);
  const int steps[] = {1 << 20, 1, 2, 4, 8};
  std::printf("K     strict   one accumulator, fresh every 8, 16, 32, 64\n");
  for (const int size : {16, 48, 96, 192, 384, 1024}) {
    float *a, *b, *c;
    check(cudaMallocManaged(&a, 16 * size * sizeof(float)));
    check(cudaMallocManaged(&b, 8 * size * sizeof(float)));
    check(cudaMallocManaged(&c, 128 * sizeof(float)));
    double scale = 0, strict = 0, errors[5] = {};
    for (int repetition = 0; repetition < 40; ++repetition) {
      std::generate(a, a + 16 * size, [&] { return uniform(engine); });
      std::generate(b, b + 8 * size, [&] { return uniform(engine); });
      double exact[128];
      for (int n = 0; n < 128; ++n) {
        double sum = 0;
        float single = 0;
        for (int k = 0; k < size; ++k) {
          sum += static_cast<double>(a[n / 8 * size + k]) * b[n % 8 * size + k];
          single = std::fma(a[n / 8 * size + k], b[n % 8 * size + k], single);
        }
        exact[n] = sum, scale += sum * sum, strict += (single - sum) * (single - sum);
      }
      for (int kind = 0; kind < 5; ++kind) {
        product<<<1, 32>>>(a, b, c, size, steps[kind]);
        check(cudaDeviceSynchronize());
        for (int n = 0; n < 128; ++n) errors[kind] += (c[n] - exact[n]) * (c[n] - exact[n]);
      }
    }
    std::printf("%-5d %.2e", size, std::sqrt(strict / scale));
    for (const double error : errors) std::printf(" %.2e", std::sqrt(error / scale));
    std::printf("\n");
    cudaFree(a), cudaFree(b), cudaFree(c);
  }
}

constexpr int stages = 8, columns = 16;

// One thread a block keeps `stages` boxes of planes x columns x rows on their way.
__global__ void read_boxes(const __grid_constant__ CUtensorMap map, int planes, int rows, int blocks_j, int blocks_k,
                           int boxes) {
  extern __shared__ __align__(1024) char buffer[];
  __shared__ Barrier barriers[stages];
  const int bytes = planes * columns * rows * 2;
  for (Barrier& barrier : barriers) barrier.init(1);
  publish_barriers();
  const auto issue = [&](int box, int slot) {
    barriers[slot].arrive_expecting(bytes);
    load(buffer + slot * bytes, map, barriers[slot], Keep::normal, box % blocks_j * planes,
         box / blocks_j % blocks_k * columns, box / blocks_j / blocks_k * rows);
  };
  int ahead = blockIdx.x;
  for (int slot = 0; slot < stages && ahead < boxes; ++slot, ahead += gridDim.x) issue(ahead, slot);
  Ring<stages> ring;
  for (int box = blockIdx.x; box < boxes; box += gridDim.x, ahead += gridDim.x, ring.advance()) {
    barriers[ring.slot].wait(ring.phase);
    if (ahead < boxes) issue(ahead, ring.slot);
  }
}

void measure_boxes() {
  constexpr int64_t d = 128, c = 64, batch = 1 << 16;
  void* x = nullptr;
  check(cudaMalloc(&x, d * c * batch * 2));
  check(cudaMemset(x, 1, d * c * batch * 2));
  for (const int planes : {8, 16, 32, 64}) {
    const int rows = 512 / planes;
    CUtensorMap map;
    const TensorBox tensor = {3, {d, c, batch}, {1, d, c * d}, {planes, columns, rows}};
    check(describe_tensor(&map, x, ksmm::Dtype::float16, tensor, 0));
    const int bytes = planes * columns * rows * 2 * stages;
    check(cudaFuncSetAttribute(read_boxes, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    const auto boxes = static_cast<int>(batch / rows * (d / planes) * (c / columns));
    const float least =
        least_milliseconds([&] { read_boxes<<<132, 1, bytes>>>(map, planes, rows, d / planes, c / columns, boxes); });
    std::printf("rows of %3d bytes: %.2f TB/s\n", planes * 2, d * c * batch * 2 / least / 1e9);
  }
  cudaFree(x);
}

int main() {
  measure_rounding();
  measure_boxes();
}
