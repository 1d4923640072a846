// How fast a matrix whose rows are long (X and Y of batch_last) is read, written and copied in tiles, by what a tile is
// and by who writes it; needs a GPU of compute capability 9.0:
//
//     nvcc -O2 -std=c++17 -arch=sm_90a hopper_writes.cu -o hopper_writes && ./hopper_writes
//
// A tile is `wide` boxes of 64 columns (128 bytes a row) side by side by `rows` rows. A thread of each block has the
// copy engine fetch tiles; then either one thread has it store them again, box by box in parts of 32 rows, two tiles at
// a time, or 256 threads write them, 16 bytes each. Neighbouring blocks take neighbouring tiles (or runs of `chunk` of
// them) along the columns, or along the rows. A line for each tile, in TB/s; a copy counts both ways.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

#include "../ksmm/csrc/cuda/hopper/copy.cuh"
#include "../ksmm/csrc/cuda/hopper/tensor_map.cu"
#include "hopper_limits.h"

using namespace ksmm::hopper;
using ksmm::shared_address;

constexpr int box_columns = 64, room = 200 * 1024, most_stages = 32, writers = 256;
constexpr int64_t columns = 25088, all_rows = 4096, all_bytes = columns * all_rows * 2;

enum class Writer { engine, threads, threads_streaming, none };

struct Copying {
  CUtensorMap source, destination;
  uint4* to;
  int wide, rows, across, down, tiles, stages, chunk;
  bool along_rows, reads;
  Writer writer;
  Keep keep, read_keep;
};

__device__ void store_with(Keep keep, const CUtensorMap& map, const void* shared, int c0, int c1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%2, %3}], [%1], %4;" ::"l"(&map),
      "r"(shared_address(shared)), "r"(c0), "r"(c1), "l"(static_cast<uint64_t>(keep))
      : "memory");
}

struct Place {
  int column, row;
};
__device__ Place place_of(const Copying& task, int tile) {
  if (task.along_rows) return {tile / task.down * task.wide * box_columns, tile % task.down * task.rows};
  return {tile % task.across * task.wide * box_columns, tile / task.across * task.rows};
}
// The nth tile of this block.
__device__ int tile_at(const Copying& task, int n) {
  const int run = n / task.chunk;
  return (run * gridDim.x + blockIdx.x) * task.chunk + n % task.chunk;
}

__global__ void __launch_bounds__(writers + 32, 1) copy_tiles(const __grid_constant__ Copying task) {
  extern __shared__ __align__(1024) char buffer[];
  __shared__ Barrier full[most_stages], empty[most_stages];
  const int box_bytes = box_columns * 2 * task.rows, tile_bytes = task.wide * box_bytes;
  if (threadIdx.x == 0) {
    for (Barrier& barrier : full) barrier.init(1);
    for (Barrier& barrier : empty) barrier.init(task.writer == Writer::engine ? 1 : writers);
    publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x == writers) {
    int slot = 0;
    uint32_t phase = 1;
    for (int n = 0;; ++n) {
      const int tile = tile_at(task, n);
      if (tile >= task.tiles) break;
      const Place p = place_of(task, tile);
      empty[slot].wait(phase);
      if (task.reads) {
        full[slot].arrive_expecting(tile_bytes);
        for (int box = 0; box < task.wide; ++box)
          load(buffer + slot * tile_bytes + box * box_bytes, task.source, full[slot], task.read_keep,
               p.column + box * box_columns, p.row);
      } else {
        full[slot].arrive();
      }
      if (++slot == task.stages) slot = 0, phase ^= 1;
    }
    return;
  }
  if (threadIdx.x >= writers) return;
  int slot = 0;
  uint32_t phase = 0;
  for (int n = 0;; ++n) {
    const int tile = tile_at(task, n);
    if (tile >= task.tiles) break;
    const Place p = place_of(task, tile);
    if (task.writer == Writer::engine) {
      if (threadIdx.x == 0) {
        full[slot].wait(phase);
        for (int part = 0; part < task.rows; part += 32)
          for (int box = 0; box < task.wide; ++box)
            store_with(task.keep, task.destination, buffer + slot * tile_bytes + box * box_bytes + part * 128,
                       p.column + box * box_columns, p.row + part);
        commit_stores();
        wait_for_store_reads<1>();  // the tile before has left its place
        if (n > 0) empty[slot == 0 ? task.stages - 1 : slot - 1].arrive();
      }
    } else {
      full[slot].wait(phase);
      const int lanes = task.wide * 8;  // chunks of 16 bytes in a row of the tile
      const int shift = 31 - __clz(lanes);
      for (int at = threadIdx.x; at < lanes * task.rows && task.writer != Writer::none; at += writers) {
        const int row = at >> shift, lane = at & (lanes - 1), box = lane / 8;
        const uint4 value =
            *reinterpret_cast<const uint4*>(buffer + slot * tile_bytes + box * box_bytes + row * 128 + lane % 8 * 16);
        uint4* to = task.to + ((p.row + row) * columns + p.column) / 8 + lane;
        if (task.writer == Writer::threads)
          *to = value;
        else
          __stcs(to, value);
      }
      empty[slot].arrive();
    }
    if (++slot == task.stages) slot = 0, phase ^= 1;
  }
  if (threadIdx.x == 0) wait_for_store_reads<0>();
}

struct Case {
  int wide, rows;
  bool along_rows;
  int chunk;
};

double rate(void* source, void* destination, Case of, bool reads, Writer writer, Keep read_keep) {
  Copying task;
  const TensorBox tensor = {2, {columns, all_rows}, {1, columns}, {box_columns, of.rows}};
  TensorBox part = tensor;
  part.box[1] = 32;
  check(describe_tensor(&task.source, source, ksmm::Dtype::float16, tensor, 0));
  check(describe_tensor(&task.destination, destination, ksmm::Dtype::float16, part, 0));
  task.to = static_cast<uint4*>(destination);
  task.wide = of.wide, task.rows = of.rows, task.along_rows = of.along_rows, task.chunk = of.chunk;
  task.reads = reads, task.writer = writer, task.keep = Keep::normal, task.read_keep = read_keep;
  task.across = static_cast<int>(columns / box_columns / of.wide), task.down = static_cast<int>(all_rows / of.rows);
  task.tiles = task.across * task.down;
  const int tile_bytes = of.wide * box_columns * 2 * of.rows;
  task.stages = std::min(most_stages, room / tile_bytes);
  check(cudaFuncSetAttribute(copy_tiles, cudaFuncAttributeMaxDynamicSharedMemorySize, task.stages * tile_bytes));
  const float least = least_milliseconds([&] { copy_tiles<<<132, writers + 32, task.stages * tile_bytes>>>(task); });
  check(cudaGetLastError());
  return all_bytes * (reads + (writer != Writer::none)) / least / 1e9;
}

int main() {
  void *source, *destination;
  check(cudaMalloc(&source, all_bytes));
  check(cudaMalloc(&destination, all_bytes));
  check(cudaMemset(source, 1, all_bytes));
  const float plain =
      least_milliseconds([&] { check(cudaMemcpyAsync(destination, source, all_bytes, cudaMemcpyDeviceToDevice)); });
  std::printf("cudaMemcpy: %.2f\n\n", 2 * all_bytes / plain / 1e9);
  std::printf(
      "order, run, columns x rows: reads; writes by engine, threads; copies by engine, threads, threads with hints\n");
  const Keep normal = Keep::normal, first_out = Keep::first_out;
  for (const bool along_rows : {false, true})
    for (const int chunk : {1, 4})
      for (const int wide : {1, 2, 4})  // divisors of the 392 boxes of a row
        for (const int rows : {32, 64, 128, 256}) {
          if (wide * box_columns * 2 * rows * 3 > room) continue;
          const auto at = [&](bool reads, Writer writer, Keep keep) {
            return rate(source, destination, {wide, rows, along_rows, chunk}, reads, writer, keep);
          };
          std::printf("%-6s %d %3d x %3d: %.2f; %.2f %.2f; %.2f %.2f %.2f\n", along_rows ? "down" : "across", chunk,
                      wide * box_columns, rows, at(true, Writer::none, normal), at(false, Writer::engine, normal),
                      at(false, Writer::threads, normal), at(true, Writer::engine, normal),
                      at(true, Writer::threads, normal), at(true, Writer::threads_streaming, first_out));
        }
  check(cudaFree(source));
  check(cudaFree(destination));
}
