// What a tile of the kernel for gradients of weights in batch_first takes, how long it may need, and its launch. Host
// code.
#pragma once

#include <algorithm>

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

// Vectors of ∂W are whole, and their addresses multiples of 16 bytes: eight divides c·d, and d where it is large.
template <class Tile>
bool gradient_takes(const WeightGradient& of, const Machine& machine) {
  const bool planes_fit = Tile::wide ? of.d > 16 && of.d % 8 == 0 : of.d == Tile::j;
  return machine.capability == 90 && machine.shared_limit >= Tile::shared_bytes && of.dtype != Dtype::float32 &&
         planes_fit && of.c * of.d % 8 == 0 && std::max(of.b, of.c) * of.d <= INT32_MAX &&
         can_describe(of.x, of.dtype, gradient_x<Tile>(of)) && can_describe(of.y, of.dtype, gradient_y<Tile>(of));
}

template <class Tile>
int64_t gradient_tiles(const WeightGradient& of) {
  return of.a * parts_of(of.b, Tile::r) * parts_of(of.c, Tile::c) * parts_of(of.d, Tile::j);
}

// What one of so many blocks takes for N rows n, as on an H100. The L2 cache gives short rows at half its rate, and
// rows of 64 bytes at less than that once more than about half of the multiprocessors ask for them; why is not known.
template <class Tile>
double seconds_of_step(int64_t d, int64_t blocks) {
  if (Tile::j == 32) return blocks <= 72 ? 0.72e-6 : d == 32 ? 1.05e-6 : 2.9e-6;
  if (Tile::wide) return d % 16 != 0 || d >= 64 ? 2.7e-6 : 0.045e-6 * static_cast<double>(d);
  return Tile::j == 16 ? 1.14e-6 : Tile::j == 8 ? 1.5e-6 : Tile::j == 4 ? 0.9e-6 : 0.72e-6;
}

// What so many parts of the batch are expected to take: memory, or the steps of a block for as many rounds of tiles as
// there are. What a block begins and ends with comes besides, and the sum of the parts. Of what an H100 took for 37
// factors with 512, 4,096 and 25,088 rows it is 1.01 in the median (0.62 to 1.32), but for tiles of 32 planes, which
// were fitted to 11 more.
template <class Tile>
double gradient_seconds(const WeightGradient& of, const Machine& machine, int64_t parts) {
  const int64_t tiles = gradient_tiles<Tile>(of), steps = parts_of(of.batch, Tile::n);
  const double rounds = static_cast<double>(parts_of(tiles * parts, machine.multiprocessors));
  const double elements = static_cast<double>(of.batch) * of.a * of.d * (of.b + of.c);
  const double sums = static_cast<double>(of.a) * of.b * of.c * of.d * parts;
  const double step = seconds_of_step<Tile>(of.d, tiles * parts);
  const double work = rounds * (2e-6 + step * static_cast<double>(parts_of(steps, parts)));
  const double memory = 2 * elements / (0.9 * machine.memory_rate);
  return 3e-6 + std::max(memory, work) + (parts == 1 ? 0 : 3e-6 + 8 * sums / machine.memory_rate);
}

// What other ways are expected to take: copies of the planes of X and ∂Y, and products of these, which are few, and
// long. Of the same 111 times of an H100 it is 0.99 in the median (0.55 to 1.26), but for the host, which their
// launches and tensors take 80 µs or more, and one pass 20.
inline double seconds_of_copied_planes(const WeightGradient& of, const Machine& machine) {
  constexpr double host = 40e-6;
  const double elements = static_cast<double>(of.batch) * of.a * of.d * (of.b + of.c);
  const double operations = 2.0 * of.batch * of.a * of.d * of.b * of.c;
  const double bytes = 2 * elements, in_cache = 13e6;  // what is copied, and read again, from the L2 cache
  const double pass = bytes / ((bytes < in_cache ? 2 : 0.95) * machine.memory_rate);
  const double products = std::max({pass, operations / machine.matrix_rate, 1.2e-9 * static_cast<double>(of.batch)});
  return std::max(host, 9e-6 + 2 * pass + products);
}

// In how many parts: so many, at most one a step, or, if that is -1, as many as are the fastest, and 0 if other ways
// are faster.
template <class Tile>
int64_t gradient_parts(const WeightGradient& of, const Machine& machine, int64_t wanted) {
  constexpr int64_t most_halves = 16;  // of a tile for each multiprocessor
  if (!gradient_takes<Tile>(of, machine)) return 0;
  const int64_t tiles = gradient_tiles<Tile>(of), steps = parts_of(of.batch, Tile::n);
  const auto possible = [&](int64_t parts) { return std::max<int64_t>(1, std::min(parts, steps)); };
  if (wanted > 0) return possible(wanted);
  int64_t best = 0;
  double least = seconds_of_copied_planes(of, machine);
  for (int64_t halves = 0; halves <= most_halves; ++halves) {
    const int64_t parts = possible(halves * machine.multiprocessors / (2 * tiles));
    const double seconds = gradient_seconds<Tile>(of, machine, parts);
    if (seconds < least) best = parts, least = seconds;
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
  const int64_t tiles = gradient_tiles<Tile>(of), vectors = tiles * Tile::vectors * Tile::consumers;
  GradientTask task = {static_cast<uint16_t*>(gradient),
                       nullptr,
                       static_cast<int>(of.a),
                       static_cast<int>(of.b),
                       static_cast<int>(of.c),
                       static_cast<int>(of.d),
                       static_cast<int>(parts_of(of.b, Tile::r)),
                       static_cast<int>(parts_of(of.c, Tile::c)),
                       static_cast<int>(parts_of(of.d, Tile::j)),
                       static_cast<int>(parts_of(of.batch, Tile::n)),
                       static_cast<int>(parts)};
  if (parts > 1) {
    const size_t bytes = static_cast<size_t>(parts * vectors) * 32;
    task.parts = static_cast<float*>(workspace.allocate(bytes, workspace.context));
  }
  error = launch_overlapping(gradient_kernel<T, Tile>, tiles * parts, Tile::threads, Tile::shared_bytes, 1, stream,
                             task, x, y);
  if (error != cudaSuccess || parts == 1) return error;
  constexpr int threads = gradient_sum_threads, shares = 8;
  if (parts <= 2 * shares)
    return launch_overlapping(gradient_sum_kernel<T, Tile, 1>, 2 * vectors / threads, threads, 0, 1, stream, task);
  return launch_overlapping(gradient_sum_kernel<T, Tile, shares>, 2 * vectors / threads * shares, threads, 0, 1, stream,
                            task);
}

}  // namespace ksmm::hopper
