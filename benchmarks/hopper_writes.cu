// How fast a matrix whose rows are long (Y of batch_last) is written, read and copied in tiles, by what a tile is;
// needs a GPU of compute capability 9.0:
//
//     nvcc -O2 -std=c++17 -arch=sm_90a hopper_writes.cu -o hopper_writes && ./hopper_writes
//
// A tile is `wide` boxes of 64 columns (128 bytes a row) side by side by `rows` rows; one thread a block has the copy
// engine fetch tiles and store them again, box after box. Neighbouring blocks take neighbouring tiles along the
// columns. A line for each tile: TB/s of reads alone, of writes alone, and of a copy (both counted), each with the
// three hints to the L2 cache for what is written. cudaMemcpy of the same bytes for comparison.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

#include "../ksmm/csrc/cuda/hopper/copy.cuh"
#include "../ksmm/csrc/cuda/hopper/tensor_map.cu"
#include "hopper_limits.h"

using namespace ksmm::hopper;

constexpr int box_columns = 64, room = 200 * 1024, most_stages = 32;
constexpr int64_t columns = 25088, all_rows = 4096, all_bytes = columns * all_rows * 2;

struct Copying {
  CUtensorMap source, destination;
  int wide, rows, tiles_across, tiles, stages;
  bool reads, writes;
  Keep keep;
};

__device__ void store_with(Keep keep, const CUtensorMap& map, const void* shared, int c0, int c1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%2, %3}], [%1], %4;" ::"l"(&map),
      "r"(shared_address(shared)), "r"(c0), "r"(c1), "l"(static_cast<uint64_t>(keep))
      : "memory");
}

__global__ void copy_tiles(const __grid_constant__ Copying task) {
  extern __shared__ __align__(1024) char buffer[];
  __shared__ Barrier full[most_stages];
  const int box_bytes = box_columns * 2 * task.rows, tile_bytes = task.wide * box_bytes;
  for (Barrier& barrier : full) barrier.init(1);
  publish_barriers();
  const auto column_of = [&](int tile, int box) { return (tile % task.tiles_across * task.wide + box) * box_columns; };
  const auto fetch = [&](int tile, int slot) {
    if (!task.reads || tile >= task.tiles) return;
    full[slot].arrive_expecting(tile_bytes);
    for (int box = 0; box < task.wide; ++box)
      load(buffer + slot * tile_bytes + box * box_bytes, task.source, full[slot], Keep::normal, column_of(tile, box),
           tile / task.tiles_across * task.rows);
  };
  const int step = static_cast<int>(gridDim.x);
  int tile = blockIdx.x, slot = 0;
  uint32_t phase = 0;
  for (int ahead = 0; ahead < task.stages; ++ahead) fetch(tile + ahead * step, ahead);
  for (; tile < task.tiles; tile += step) {
    if (task.reads) full[slot].wait(phase);
    if (task.writes)
      for (int box = 0; box < task.wide; ++box)
        store_with(task.keep, task.destination, buffer + slot * tile_bytes + box * box_bytes, column_of(tile, box),
                   tile / task.tiles_across * task.rows);
    commit_stores();
    // the tile before has left its place, unless this is the first
    wait_for_store_reads<1>();
    if (tile >= step) fetch(tile - step + task.stages * step, slot == 0 ? task.stages - 1 : slot - 1);
    if (++slot == task.stages) slot = 0, phase ^= 1;
  }
  wait_for_store_reads<0>();
}

double terabytes_per_second(void* source, void* destination, int wide, int rows, bool reads, bool writes, Keep keep) {
  Copying task;
  const ksmm::hopper::TensorBox tensor = {2, {columns, all_rows}, {1, columns}, {box_columns, rows}};
  check(describe_tensor(&task.source, source, ksmm::Dtype::float16, tensor, 0));
  check(describe_tensor(&task.destination, destination, ksmm::Dtype::float16, tensor, 0));
  task.wide = wide, task.rows = rows, task.reads = reads, task.writes = writes, task.keep = keep;
  task.tiles_across = static_cast<int>(columns / box_columns / wide);
  task.tiles = static_cast<int>(task.tiles_across * (all_rows / rows));
  const int tile_bytes = wide * box_columns * 2 * rows;
  task.stages = std::min(most_stages, room / tile_bytes);
  check(cudaFuncSetAttribute(copy_tiles, cudaFuncAttributeMaxDynamicSharedMemorySize, task.stages * tile_bytes));
  const float least = least_milliseconds([&] { copy_tiles<<<132, 1, task.stages * tile_bytes>>>(task); });
  return all_bytes * (reads + writes) / least / 1e9;
}

int main() {
  void *source, *destination;
  check(cudaMalloc(&source, all_bytes));
  check(cudaMalloc(&destination, all_bytes));
  check(cudaMemset(source, 1, all_bytes));
  const float plain =
      least_milliseconds([&] { check(cudaMemcpyAsync(destination, source, all_bytes, cudaMemcpyDeviceToDevice)); });
  std::printf("cudaMemcpy: %.2f\n\n", 2 * all_bytes / plain / 1e9);
  std::printf("boxes side by side, rows: reads; writes (normal, first out, last out); copy (the same)\n");
  constexpr Keep hints[] = {Keep::normal, Keep::first_out, Keep::last_out};
  for (const int wide : {1, 2, 4, 7, 8, 14})  // divisors of the 392 boxes of a row
    for (const int rows : {8, 16, 32, 64, 128}) {
      if (wide * box_columns * 2 * rows * 3 > room) continue;
      std::printf("%2d x %3d: %.2f;", wide, rows,
                  terabytes_per_second(source, destination, wide, rows, true, false, Keep::normal));
      for (const bool reads : {false, true}) {
        for (const Keep keep : hints)
          std::printf(" %.2f", terabytes_per_second(source, destination, wide, rows, reads, true, keep));
        std::printf("%s", reads ? "\n" : ";");
      }
    }
  check(cudaFree(source));
  check(cudaFree(destination));
}
