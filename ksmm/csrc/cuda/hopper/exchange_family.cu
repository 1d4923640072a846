// The exchange kernels as configurations, in one pass or two.
#include <algorithm>
#include <iterator>

#include "../transpose.cuh"
#include "exchange.h"
#include "exchange_family.h"
#include "passes.h"

namespace ksmm::hopper {

#if defined(KSMM_SM90A)

namespace {

// The product of some rows of the batch, whose X is where the source says.
GemmView view_of(const Problem& problem, const Operands& operands, int64_t rows, ExchangeSource source, const void* x) {
  const auto& [a, b, c, d, batch, dtype, layout, precision] = problem;
  GemmView view = {};
  view.dtype = dtype, view.rows_contiguous = false;
  view.groups_i = a, view.groups_j = d, view.rows = rows, view.b = b, view.c = c;
  view.x = x;
  if (source == ExchangeSource::planes)
    view.x_strides = {c * d, c, a * c * d, 1};
  else
    view.x_strides = {c * d, 1, operands.x_stride, d};
  view.weight = operands.weight, view.bias = operands.bias, view.y = operands.y;
  std::copy(operands.weight_strides, operands.weight_strides + 4, view.weight_strides);
  return view;
}

bool suits(const Problem& problem) {
  return problem.layout == Layout::batch_first && problem.d > 1 && problem.batch > 0 && problem.dtype != Dtype::float32;
}

template <int COLUMNS>
struct OnePass {
  static constexpr ExchangeShape shape = {ExchangeSource::interleaved, COLUMNS, 16};

  static GemmView view(const Problem& problem, const Operands& operands) {
    return view_of(problem, operands, problem.batch, shape.source, operands.x);
  }
  static bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
    return suits(problem) && exchange_takes(view(problem, operands), shape, machine);
  }
  static double seconds(const Problem& problem, const Machine& machine) {
    return exchange_seconds(view(problem, {}), shape, machine);
  }
  static cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace&,
                            cudaStream_t stream) {
    return launch_exchange(view(problem, operands), shape, machine, stream);
  }
  static constexpr Configuration as(const char* name) { return {name, true, takes, seconds, launch}; }
};

template <int COLUMNS, int GROUP>
struct TwoPasses {
  static constexpr ExchangeShape shape = {ExchangeSource::planes, COLUMNS, GROUP};

  static int64_t features(const Problem& problem) { return problem.a * problem.c * problem.d; }

  static Transposition transposition(const Problem& problem, const void* x, int64_t rows, void* between) {
    return {size_of(problem.dtype), x, between, rows * problem.a, problem.c, problem.d};
  }
  static bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
    if (!suits(problem) || operands.x_stride != features(problem)) return false;
    const int64_t rows = rows_of_part(problem, features(problem));
    // what is in between is aligned
    return can_transpose(transposition(problem, operands.x, rows, nullptr)) &&
           exchange_takes(view_of(problem, operands, rows, shape.source, nullptr), shape, machine);
  }
  // The transposition runs at about 0.93 of the rate of a copy.
  static double seconds(const Problem& problem, const Machine& machine) {
    const double elements = static_cast<double>(problem.batch) * static_cast<double>(features(problem));
    return 2 * size_of(problem.dtype) * elements / (0.93 * machine.memory_rate) +
           exchange_seconds(view_of(problem, {}, problem.batch, shape.source, nullptr), shape, machine);
  }
  static cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine,
                            const Workspace& workspace, cudaStream_t stream) {
    const int64_t part = std::min(rows_of_part(problem, features(problem)), problem.batch);
    const int64_t bytes = part * features(problem) * size_of(problem.dtype);
    void* const between = workspace.allocate(static_cast<size_t>(bytes), workspace.context);
    cudaError_t error = cudaSuccess;
    for (int64_t n = 0; n < problem.batch && error == cudaSuccess; n += part) {
      const int64_t rows = std::min(part, problem.batch - n);
      const Operands of_part = from_row(problem, operands, n);
      error = transpose(transposition(problem, of_part.x, rows, between), stream);
      if (error == cudaSuccess)
        error = launch_exchange(view_of(problem, of_part, rows, shape.source, between), shape, machine, stream);
    }
    return error;
  }
  static constexpr Configuration as(const char* name) { return {name, true, takes, seconds, launch}; }
};

constexpr Configuration family[] = {
    OnePass<64>::as("one pass j16 r64"),         OnePass<96>::as("one pass j16 r96"),
    OnePass<128>::as("one pass j16 r128"),       TwoPasses<64, 16>::as("two passes j16 r64"),
    TwoPasses<96, 16>::as("two passes j16 r96"), TwoPasses<128, 16>::as("two passes j16 r128"),
    TwoPasses<64, 24>::as("two passes j24 r64"),
};

}  // namespace

Configurations exchange_configurations() { return {family, static_cast<int>(std::size(family))}; }

#else

Configurations exchange_configurations() { return {nullptr, 0}; }

#endif

}  // namespace ksmm::hopper
