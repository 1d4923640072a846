// The strict float32 kernel's own steps, carried out for all threads of a block in turn, on the CPU.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "../../ksmm/csrc/cuda/strict_kernel.cuh"

namespace ksmm {

// A block's threads take each step in turn; copies are there at once, into as many stages as the kernel has. Each of
// the block's PARTS multiplies its steps of k by itself.
template <Layout LAYOUT, class Tile, int PARTS = 1>
void emulate_strict(const Task<float>& task) {
  using Steps = StrictSteps<LAYOUT, Tile>;
  using Sums = StrictSums<LAYOUT, Tile>;
  struct alignas(16) Shared {
    float data[Tile::shared_floats];
  };
  auto shared = std::make_unique<Shared>();
  using R = typename Sums::Registers;
  std::vector<R> registers(Tile::threads), of_all(Tile::threads);
  const auto each_thread = [&](auto step) {
    for (int thread = 0; thread < Tile::threads; ++thread) step(registers[thread], thread);
  };
  for (int64_t tile = 0; tile < task.tiles; ++tile) {
    const Origin origin = tile_origin(task, tile, Tile::n, Tile::r, Tile::j);
    for (int part = 0; part < PARTS; ++part) {
      each_thread([](R& r, int) { r = {}; });
      std::vector<typename Steps::Cursors> cursors;
      for (int thread = 0; thread < Tile::threads; ++thread) {
        cursors.push_back(Steps::start(task, origin, thread));
        Steps::skip(cursors.back(), task, part * Tile::k);
      }
      for (int64_t k = part * Tile::k; k < task.c; k += PARTS * Tile::k) {
        float* stage = shared->data + k / Tile::k / PARTS % Tile::stages * Tile::stage_floats;
        for (int index = 0; index < Tile::stage_floats; ++index) stage[index] = NAN;
        each_thread([&](R&, int thread) {
          Steps::copy(stage, cursors[thread], task, task.c - k, thread);
          Steps::skip(cursors[thread], task, PARTS * Tile::k);
        });
        each_thread([&](R& r, int thread) { Steps::multiply(r, stage, thread); });
      }
      each_thread([&](R& r, int thread) {
        for (int at = 0; at < Tile::thread_n * Tile::thread_r; ++at) {
          float& sum = of_all[thread].sums[at / Tile::thread_r][at % Tile::thread_r];
          sum = part == 0 ? r.sums[at / Tile::thread_r][at % Tile::thread_r]
                          : sum + r.sums[at / Tile::thread_r][at % Tile::thread_r];
        }
      });
    }
    registers = of_all;
    each_thread([&](R& r, int thread) { Sums::read_bias(r, task, origin, thread); });
    if constexpr (Tile::j == 1) {
      each_thread([&](R& r, int thread) { Sums::store(r, task, origin, thread); });
    } else {
      for (int round = 0; round < Tile::rounds; ++round) {
        for (float& value : shared->data) value = NAN;
        each_thread([&](R& r, int thread) { Sums::put(r, shared->data, round, thread); });
        each_thread([&](R&, int thread) { Sums::take(shared->data, task, origin, round, thread); });
      }
    }
  }
}

}  // namespace ksmm
