// What a tile of the kernel for gradients of weights in batch_first takes, how long it may need, and its launch. Host
// code.
#pragma once

#include <algorithm>
#include <limits>

#include "../configuration.h"
#include "../launch.cuh"
#include "gradient_sum.cuh"
#include "tensor_map.h"

namespace ksmm::hopper {

// Rows of X (C features a plane) or ∂Y (B), by boxes.
template <class Tile>
TensorBox gradient_rows(const WeightGradient& of, int64_t size, int64_t stride, int tile) {
  if (Tile::wide) return {4, {of.d, of.batch, size, of.a}, {1, stride, of.d, size * of.d}, {Tile::j, Tile::n, tile, 1}};
  return {3, {size * of.d, of.batch, of.a}, {1, stride, size * of.d}, {64, Tile::n, 1}};
}
template <class Tile>
TensorBox gradient_x(const WeightGradient& of) {
  return gradient_rows<Tile>(of, of.c, of.x_stride, Tile::c);
}
template <class Tile>
TensorBox gradient_y(const WeightGradient& of) {
  return gradient_rows<Tile>(of, of.b, of.y_stride, Tile::r);
}

// How many clusters run at a time.
template <class Tile>
int64_t gradient_clusters(const Machine& machine) {
  return Tile::cluster == 1 ? machine.multiprocessors : Tile::cluster == 2 ? machine.pairs : machine.quads;
}

// Vectors of ∂W are whole, and their addresses multiples of 16 bytes: eight divides c·d, and d where it is large.
template <class Tile>
bool gradient_takes(const WeightGradient& of, const Machine& machine) {
  const bool planes_fit = Tile::wide ? of.d > 16 && of.d % 8 == 0 : of.d == Tile::j;
  return machine.capability == 90 && machine.shared_limit >= Tile::shared_bytes && of.dtype != Dtype::float32 &&
         planes_fit && of.c * of.d % 8 == 0 && std::max(of.b, of.c) * of.d <= INT32_MAX &&
         gradient_clusters<Tile>(machine) > 0 && can_describe(of.x, of.dtype, gradient_x<Tile>(of)) &&
         can_describe(of.y, of.dtype, gradient_y<Tile>(of));
}

// Of clusters.
template <class Tile>
int64_t gradient_tiles(const WeightGradient& of) {
  return of.a * parts_of(of.b, Tile::r * Tile::along_r) * parts_of(of.c, Tile::c * Tile::along_c) *
         parts_of(of.d, Tile::j);
}

// What so many parts of the batch are expected to take: memory, the L2 cache, the copy engine (2.7 cycles for a row),
// or shared memory, for as many rounds of tiles as there are.
template <class Tile>
double gradient_seconds(const WeightGradient& of, const Machine& machine, int64_t parts) {
  const double block_rate = machine.cache_rate / machine.multiprocessors, cycles = block_rate / 21;
  const double own = 1.0 * Tile::y_bytes / Tile::along_c + 1.0 * Tile::x_bytes / Tile::along_r;
  const double rows = (0.4 * Tile::stage_bytes + 0.6 * own) / Tile::row_bytes;
  const double reads = Tile::n / 16.0 * Tile::warps * (Tile::y_slices + Tile::x_slices) * 16;  // of shared memory
  const double step = std::max({own / block_rate, 2.7 * rows / cycles, 1.2 * reads / cycles});
  const int64_t tiles = gradient_tiles<Tile>(of), steps = parts_of(of.batch, Tile::n);
  const double rounds = static_cast<double>(parts_of(tiles * parts, gradient_clusters<Tile>(machine)));
  const double elements = static_cast<double>(of.batch) * of.a * of.d * (of.b + of.c);
  const double sums = static_cast<double>(of.a) * of.b * of.c * of.d * parts;
  const double work = rounds * (2e-6 + step * static_cast<double>(parts_of(steps, parts)));
  const double memory = 2 * elements / (0.9 * machine.memory_rate);
  return 3e-6 + std::max(memory, work) + (parts == 1 ? 0 : 3e-6 + 8 * sums / machine.memory_rate);
}

template <class Tile>
GradientPlan plan_gradient(const WeightGradient& of, const Machine& machine, int64_t wanted) {
  constexpr int64_t most_rounds = 8, least_steps = 4;
  GradientPlan best = {Tile::cluster, 0, std::numeric_limits<double>::infinity()};
  if (!gradient_takes<Tile>(of, machine)) return best;
  const int64_t tiles = gradient_tiles<Tile>(of), steps = parts_of(of.batch, Tile::n);
  const auto consider = [&](int64_t parts) {
    const double seconds = gradient_seconds<Tile>(of, machine, parts);
    if (seconds < best.seconds) best.parts = parts, best.seconds = seconds;
  };
  if (wanted >= 0) return consider(std::max<int64_t>(1, std::min(wanted, steps))), best;
  consider(1);
  for (int64_t rounds = 1; rounds <= most_rounds; ++rounds) {
    const int64_t parts = std::min(rounds * gradient_clusters<Tile>(machine) / tiles, steps / least_steps);
    if (parts > 1) consider(parts);
  }
  return best;
}

template <class T, class Tile>
cudaError_t launch_gradient(const WeightGradient& of, int64_t parts, void* gradient, const Workspace& workspace,
                            cudaStream_t stream) {
  CUtensorMap x, y;
  cudaError_t error = describe_tensor(&x, of.x, of.dtype, gradient_x<Tile>(of), Tile::row_bytes);
  if (error == cudaSuccess) error = describe_tensor(&y, of.y, of.dtype, gradient_y<Tile>(of), Tile::row_bytes);
  if (error != cudaSuccess) return error;
  const int64_t blocks = gradient_tiles<Tile>(of) * Tile::cluster, vectors = blocks * Tile::vectors * 256;
  GradientTask task = {static_cast<uint16_t*>(gradient),
                       nullptr,
                       static_cast<int>(of.a),
                       static_cast<int>(of.b),
                       static_cast<int>(of.c),
                       static_cast<int>(of.d),
                       static_cast<int>(parts_of(of.b, Tile::r * Tile::along_r)),
                       static_cast<int>(parts_of(of.c, Tile::c * Tile::along_c)),
                       static_cast<int>(parts_of(of.d, Tile::j)),
                       static_cast<int>(parts_of(of.batch, Tile::n)),
                       static_cast<int>(parts)};
  if (parts > 1) {
    const size_t bytes = static_cast<size_t>(parts * vectors) * 32;
    task.parts = static_cast<float*>(workspace.allocate(bytes, workspace.context));
  }
  error = launch_overlapping(gradient_kernel<T, Tile>, blocks * parts, Tile::threads, Tile::shared_bytes, Tile::cluster,
                             stream, task, x, y);
  if (error != cudaSuccess || parts == 1) return error;
  return launch_overlapping(gradient_sum_kernel<T, Tile>, vectors / (GradientSum::halves / 2), GradientSum::threads, 0,
                            1, stream, task);
}

}  // namespace ksmm::hopper
