// The configurations that need no particular GPU.
#include <algorithm>
#include <array>
#include <iterator>

#include "portable.cuh"
#include "strict.cuh"
#include "tensor.cuh"

namespace ksmm {
namespace {

bool takes_float32(const Problem& problem, const Operands&, const Machine&) { return problem.dtype == Dtype::float32; }

bool takes_16_bits(const Problem& problem, const Operands&, const Machine&) { return problem.dtype != Dtype::float32; }

double bytes_of(const Problem& problem) {
  const auto [a, b, c, d] = std::array{problem.a, problem.b, problem.c, problem.d};
  const double size = size_of(problem.dtype);
  return size * (static_cast<double>(problem.batch) * a * d * (b + c) + static_cast<double>(a) * b * c * d);
}

double operations_of(const Problem& problem) {
  return 2.0 * problem.batch * problem.a * problem.b * problem.c * problem.d;
}

constexpr double launch_seconds = 3e-6;

// How much longer a small problem takes than its operations say, since it has fewer tiles than there are
// multiprocessors.
double idle(const Problem& problem, const Machine& machine) {
  const double planes = problem.layout == Layout::batch_first ? (problem.d + 15) / 16 : problem.d;
  const double tiles = problem.a * planes * ((problem.b + 63) / 64) * ((problem.batch + 63) / 64);
  return std::max(1.0, machine.multiprocessors / tiles);
}

// How much longer than the strict roofline, on an H200: fitted to 94 problems with d of 4 and more in batch_first, and
// to the tiles' times for 17 in batch_last. What a tile does before and after its products counts the less the longer c
// is.
double over_roofline(const Problem& problem) {
  const double c = static_cast<double>(problem.c);
  if (problem.layout == Layout::batch_last) return 1.0 + 20 / c + 500 / (c * c);
  if (problem.d > 4) return (problem.b % 32 == 0 ? 1 : 1.12) * (1.24 + 30 / c + 1000 / (c * c));
  // 48 r of three planes: 1,96,96,3 takes 1.6 times what the others come to
  const double narrow = problem.d == 3 && parts_of(problem.b, 48) * 48 < parts_of(problem.b, 64) * 64 ? 1.6 : 1;
  return narrow * ((problem.d == 4 ? 1.2 : 1.14) + 22 / c + 900 / (c * c));
}

// ... and for a single tile 0.07 to 0.17 µs for each k, the more where it is cut off. Rows that no vector of 16 bytes
// fits are read number by number: 1.1 to 2.3 times the time for ten problems with 25,087 columns; ...
double float32_seconds(const Problem& problem, const Machine& machine) {
  const bool last = problem.layout == Layout::batch_last, elements = last && problem.batch % 4 != 0;
  const double factor = over_roofline(problem) * (elements ? 1.9 : 1.0);
  const double arithmetic = idle(problem, machine) * operations_of(problem) / machine.float_rate;
  const double of_k = !last                      ? (problem.d > 1 ? 0.165e-6 : 0.12e-6)
                      : elements                 ? 0.13e-6
                      : problem.batch % 128 != 0 ? 0.095e-6
                                                 : 0.065e-6;
  const double tile = 2e-6 + static_cast<double>(problem.c) * of_k;
  return launch_seconds + std::max({factor * bytes_of(problem) / machine.memory_rate, factor * arithmetic, tile});
}

// How long the steps of one tile take where nothing else is there to do: 0.8 µs a step with one j, 1.3 with 4, 2.2 with
// 16, after 3 µs more than a launch.
double tile_seconds(const Problem& problem) {
  const int64_t d = problem.layout == Layout::batch_first ? problem.d : 1;
  const int64_t columns = d <= 2 ? 32 : 16, steps = (problem.c + columns - 1) / columns;
  return 3e-6 + static_cast<double>(steps) * (d <= 2 ? 0.8e-6 : d <= 4 ? 1.3e-6 : 2.2e-6);
}

// ... and for 16 bits 1.6 to 3.4 of the time for X and Y, or 0.3 to 0.075 of the matrix units' rate. Rows that no
// vector of 16 bytes fits are read element by element: 9 times the time for X and Y, or twice that of the steps.
double seconds_of_16_bits(const Problem& problem, const Machine& machine) {
  const bool planes = problem.layout == Layout::batch_first && problem.d > 1;
  const bool elements = problem.layout == Layout::batch_last && problem.batch % 8 != 0;
  const double arithmetic = operations_of(problem) / (machine.matrix_rate * (planes ? 0.075 : 0.3));
  const double memory = (planes ? 3.4 : elements ? 9 : 1.6) * bytes_of(problem) / machine.memory_rate;
  const double steps = tile_seconds(problem) * (elements ? 2 : 1);
  return launch_seconds + std::max({memory, idle(problem, machine) * arithmetic, steps});
}

cudaError_t launch_float32(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace&,
                           cudaStream_t stream) {
  return multiply_strict(problem, operands, machine, stream);
}

cudaError_t launch_16_bits(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace&,
                           cudaStream_t stream) {
  return problem.dtype == Dtype::float16 ? multiply_tensor<float16>(problem, operands, machine, stream)
                                         : multiply_tensor<bfloat16>(problem, operands, machine, stream);
}

constexpr Configuration family[] = {
    {"strict", false, takes_float32, float32_seconds, launch_float32},
    {"tensor", false, takes_16_bits, seconds_of_16_bits, launch_16_bits},
};

}  // namespace

Configurations portable_configurations() { return {family, static_cast<int>(std::size(family))}; }

}  // namespace ksmm
