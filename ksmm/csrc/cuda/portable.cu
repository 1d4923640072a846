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
  const double size = problem.dtype == Dtype::float32 ? 4 : 2;
  return size * (static_cast<double>(problem.batch) * a * d * (b + c) + static_cast<double>(a) * b * c * d);
}

double operations_of(const Problem& problem) {
  return 2.0 * problem.batch * problem.a * problem.b * problem.c * problem.d;
}

constexpr double launch_seconds = 3e-6;

// The factors are the medians of the published run of measurements/nvidia-h200: 1.2 to 1.5 of the strict roofline ...
double float32_seconds(const Problem& problem, const Machine& machine) {
  const double factor = problem.layout == Layout::batch_first ? 1.5 : 1.25;
  const double arithmetic = operations_of(problem) / machine.float_rate;
  return launch_seconds + factor * std::max(bytes_of(problem) / machine.memory_rate, arithmetic);
}

// ... and for 16 bits 2.8 to 5.6 of the roofline, or about 0.3 of the matrix units' rate.
double seconds_of_16_bits(const Problem& problem, const Machine& machine) {
  const double factor = problem.layout == Layout::batch_first ? 3 : 1.6;
  const double rate = machine.matrix_rate * (problem.layout == Layout::batch_first && problem.d > 1 ? 0.16 : 0.3);
  return launch_seconds + std::max(factor * bytes_of(problem) / machine.memory_rate, operations_of(problem) / rate);
}

cudaError_t launch_float32(const Problem& problem, const Operands& operands, const Machine&, const Workspace&,
                           cudaStream_t stream) {
  return multiply_strict(problem, operands, stream);
}

cudaError_t launch_16_bits(const Problem& problem, const Operands& operands, const Machine&, const Workspace&,
                           cudaStream_t stream) {
  return problem.dtype == Dtype::float16 ? multiply_tensor<float16>(problem, operands, stream)
                                         : multiply_tensor<bfloat16>(problem, operands, stream);
}

constexpr Configuration family[] = {
    {"strict", false, takes_float32, float32_seconds, launch_float32},
    {"tensor", false, takes_16_bits, seconds_of_16_bits, launch_16_bits},
};

}  // namespace

Configurations portable_configurations() { return {family, static_cast<int>(std::size(family))}; }

}  // namespace ksmm
