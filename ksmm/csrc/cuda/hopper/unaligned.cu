// Which problems the kernel for rows at any address takes, and how long it is expected to need.
#include <algorithm>
#include <cstdint>

#include "unaligned.h"

#if defined(KSMM_SM90A)

namespace ksmm::hopper {
namespace {

// Where the copy engine takes X and Y, gemm does better.
bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
  if (machine.capability != 90 || problem.layout != Layout::batch_last || problem.dtype == Dtype::float32) return false;
  const auto aligned = [](const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; };
  const bool fits = problem.batch % 8 == 0 && operands.x_stride % 8 == 0 && aligned(operands.x) && aligned(operands.y);
  const double tiles = static_cast<double>(problem.a) * problem.d * (problem.b / 64 + 1) * (problem.batch / 128 + 1);
  const bool numbered = tiles < INT32_MAX / 2 && problem.batch < INT32_MAX / 2 && problem.b < INT32_MAX / 2 &&
                        problem.c < INT32_MAX / 2 && problem.d < INT32_MAX;
  return !fits && numbered && problem.batch > 0 && machine.shared_limit >= 227 * 1024;
}

// Not fitted to anything yet.
double seconds(const Problem& problem, const Machine& machine) {
  const double planes = static_cast<double>(problem.a) * problem.d, rows = static_cast<double>(problem.batch);
  const int64_t columns = problem.b <= 64 ? 64 : 128;
  const double passes = static_cast<double>(parts_of(problem.b, columns));
  const double whole_rows = static_cast<double>(parts_of(problem.batch, 128) * 128);
  const double x = problem.c * (1 + 0.5 * (passes - 1)) / 0.7, y = problem.b / 0.6;
  const double memory = 2 * planes * rows * (x + y) / machine.memory_rate;
  const double whole_c = static_cast<double>(parts_of(problem.c, 64) * 64);
  const double matrix = 2 * planes * whole_rows * whole_c * passes * columns / (0.5 * machine.matrix_rate);
  return 4e-6 + 0.3e-6 * static_cast<double>(parts_of(problem.c, 64)) + std::max(memory, matrix);
}

cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace&,
                   cudaStream_t stream) {
  GemmView view;
  view_problem(problem, operands, &view);
  return problem.dtype == Dtype::float16 ? launch_unaligned_float16(view, machine, stream)
                                         : launch_unaligned_bfloat16(view, machine, stream);
}

constexpr Configuration family[] = {{"unaligned", true, takes, seconds, launch}};

}  // namespace
}  // namespace ksmm::hopper
#endif

namespace ksmm {

Configurations unaligned_configurations() {
#if defined(KSMM_SM90A)
  return {hopper::family, 1};
#else
  return {nullptr, 0};
#endif
}

}  // namespace ksmm
