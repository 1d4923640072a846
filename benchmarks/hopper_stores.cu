// How fast one multiprocessor, and all of them, store rows that lie far apart in short runs (Y of batch_first), by how
// long the runs are and by who stores them; needs a GPU of compute capability 9.0:
//
//     nvcc -O3 -std=c++17 -arch=sm_90a hopper_stores.cu -o hopper_stores && ./hopper_stores
//
// A tile is 192 rows of 1,536 16-bit numbers, 16 rows for each of 12 warps, in blocks that have nearly all shared
// memory, so that little is left for L1. Threads store runs of so many bytes of 8 rows at a time, 16 bytes each, with
// or without a place in L1; or a thread of each warp has the copy engine store boxes of so many rows by so many
// numbers, of which a ring of `boxes` waits in shared memory. A line for each: bytes a cycle for one block, TB/s for
// one on each multiprocessor.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

#include "../ksmm/csrc/cuda/hopper/copy.cuh"
#include "../ksmm/csrc/cuda/hopper/tensor_map.cu"
#include "hopper_limits.h"

using namespace ksmm::hopper;

constexpr int features = 1536, rows = 192, warps = 12, tiles = 8, shared_bytes = 220 * 1024, blocks = 132;
constexpr int64_t tile_bytes = int64_t{rows} * features * 2;

__device__ long long cycles;  // that block 0 took

template <bool IN_L1>
__device__ void store_16(uint16_t* to, const uint4& value) {
  if constexpr (IN_L1)
    *reinterpret_cast<uint4*>(to) = value;
  else
    asm volatile("st.global.L1::no_allocate.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(value.x), "r"(value.y),
                 "r"(value.z), "r"(value.w)
                 : "memory");
}

template <int RUN, bool IN_L1>
__global__ void __launch_bounds__(32 * warps, 1) by_threads(uint16_t* y) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const long long begin = clock64();
  uint4 value = make_uint4(lane, warp, 3, 4);
  constexpr int row_pieces = RUN / 16, pieces = (8 * row_pieces + 31) / 32;
  for (int tile = 0; tile < tiles; ++tile) {
    uint16_t* first = y + (static_cast<int64_t>(tile * gridDim.x + blockIdx.x) * rows + warp * 16) * features;
    for (int column = 0; column < features; column += RUN / 2)
#pragma unroll
      for (int h = 0; h < 16; h += 8, ++value.z)
#pragma unroll
        for (int at = 0; at < pieces; ++at) {
          const int piece = lane + 32 * at, row = piece / row_pieces;
          if (row < 8) store_16<IN_L1>(first + (row + h) * features + column + piece % row_pieces * 8, value);
        }
  }
  __syncthreads();
  if (blockIdx.x == 0 && threadIdx.x == 0) cycles = clock64() - begin;
}

template <int BOX_ROWS, int COLUMNS, int BOXES>
__global__ void __launch_bounds__(32 * warps, 1) by_engine(const __grid_constant__ CUtensorMap map) {
  extern __shared__ __align__(1024) unsigned char boxes[];
  const int warp = threadIdx.x / 32;
  const bool sends = threadIdx.x % 32 == 0;
  const long long begin = clock64();
  constexpr int box_bytes = BOX_ROWS * COLUMNS * 2;
  int next = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    const int n = (tile * gridDim.x + blockIdx.x) * rows + warp * 16;
    for (int column = 0; column < features; column += COLUMNS)
      for (int h = 0; h < 16; h += BOX_ROWS) {
        if (sends) wait_for_store_reads<BOXES - 1>();
        __syncwarp();
        unsigned char* box = boxes + (warp * BOXES + next) * box_bytes;
        if (++next == BOXES) next = 0;
        for (int byte = threadIdx.x % 32 * 8; byte < box_bytes; byte += 256)
          *reinterpret_cast<uint2*>(box + byte) = make_uint2(n, column);
        fence_for_engines();
        __syncwarp();
        if (sends) {
          store(map, box, column, n + h);
          commit_stores();
        }
      }
  }
  if (sends) wait_for_store_reads<0>();
  __syncthreads();
  if (blockIdx.x == 0 && threadIdx.x == 0) cycles = clock64() - begin;
}

template <class Launch>
void report(const char* name, Launch launch) {
  long long of_one = 0;
  least_milliseconds([&] { launch(1); });
  check(cudaGetLastError());
  check(cudaMemcpyFromSymbol(&of_one, cycles, sizeof of_one));
  const double seconds = least_milliseconds([&] { launch(blocks); }) / 1e3;
  std::printf("%-32s %5.1f %6.2f\n", name, static_cast<double>(tile_bytes * tiles) / static_cast<double>(of_one),
              static_cast<double>(tile_bytes * tiles * blocks) / seconds / 1e12);
}

template <int RUN, bool IN_L1>
void report_threads(uint16_t* y) {
  char name[64];
  std::snprintf(name, sizeof name, "threads, %d bytes%s", RUN, IN_L1 ? "" : ", not in L1");
  check(cudaFuncSetAttribute(by_threads<RUN, IN_L1>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  report(name, [=](int grid) { by_threads<RUN, IN_L1><<<grid, 32 * warps, shared_bytes>>>(y); });
}

template <int BOX_ROWS, int COLUMNS, int BOXES>
void report_engine(uint16_t* y) {
  char name[64];
  std::snprintf(name, sizeof name, "engine, %d x %d, %d boxes", BOX_ROWS, COLUMNS, BOXES);
  CUtensorMap map;
  const TensorBox tensor = {2, {features, int64_t{blocks} * rows * tiles}, {1, features}, {COLUMNS, BOX_ROWS}};
  check(describe_tensor(&map, y, ksmm::Dtype::float16, tensor, 0));
  check(cudaFuncSetAttribute(by_engine<BOX_ROWS, COLUMNS, BOXES>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             shared_bytes));
  report(name, [=](int grid) { by_engine<BOX_ROWS, COLUMNS, BOXES><<<grid, 32 * warps, shared_bytes>>>(map); });
}

int main() {
  uint16_t* y;
  check(cudaMalloc(&y, tile_bytes * tiles * blocks));
  std::printf("%-32s B/cycle  TB/s\n", "");
  report_threads<32, true>(y), report_threads<32, false>(y);
  report_threads<64, true>(y), report_threads<64, false>(y);
  report_threads<96, true>(y), report_threads<96, false>(y);
  report_threads<128, true>(y), report_threads<128, false>(y);
  report_threads<192, true>(y), report_threads<192, false>(y);
  report_threads<384, true>(y), report_threads<384, false>(y);
  report_engine<8, 48, 2>(y), report_engine<8, 48, 4>(y);
  report_engine<16, 48, 2>(y), report_engine<8, 192, 2>(y), report_engine<16, 192, 2>(y);
  check(cudaFree(y));
}
