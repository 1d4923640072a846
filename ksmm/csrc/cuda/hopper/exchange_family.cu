// The exchange kernels as configurations, in one pass or two.
#include <algorithm>
#include <iterator>

#include "exchange.h"
#include "exchange_family.h"

namespace ksmm::hopper {

#if defined(KSMM_SM90A)

namespace {

GemmView view_of(const Problem& problem, const Operands& operands, ExchangeSource source) {
  const auto& [a, b, c, d, batch, dtype, layout, precision] = problem;
  GemmView view = {};
  view.dtype = dtype, view.rows_contiguous = false;
  view.groups_i = a, view.groups_j = d, view.rows = batch, view.b = b, view.c = c;
  view.x = operands.x;
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

// One kernel: all of a product in one pass, or the second pass of two.
template <ExchangeSource SOURCE, int COLUMNS, int GROUP>
struct Product {
  static constexpr ExchangeShape shape = {SOURCE, COLUMNS, GROUP};

  static bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
    return suits(problem) && exchange_takes(view_of(problem, operands, SOURCE), shape, machine);
  }
  static double seconds(const Problem& problem, const Machine& machine) {
    return exchange_seconds(view_of(problem, {}, SOURCE), shape, machine);
  }
  static cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace&,
                            cudaStream_t stream) {
    return launch_exchange(view_of(problem, operands, SOURCE), shape, machine, stream);
  }
  static constexpr Configuration as(const char* name) { return {name, true, takes, seconds, launch}; }
};

template <int COLUMNS, int GROUP>
struct TwoPasses {
  using Second = Product<ExchangeSource::planes, COLUMNS, GROUP>;

  static int64_t features(const Problem& problem) { return problem.a * problem.c * problem.d; }

  static bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
    if (!suits_two_passes(problem, operands)) return false;
    const Passes passes =
        describe_two_passes(problem, operands, rows_of_part(problem, features(problem)), nullptr);  // is aligned
    return Second::takes(passes.product, passes.of_product, machine);
  }
  // The transposition runs at about 0.93 of the rate of a copy.
  static double seconds(const Problem& problem, const Machine& machine) {
    const double elements = static_cast<double>(problem.batch) * static_cast<double>(features(problem));
    return 2 * size_of(problem.dtype) * elements / (0.93 * machine.memory_rate) + Second::seconds(problem, machine);
  }
  static cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine,
                            const Workspace& workspace, cudaStream_t stream) {
    const int64_t part = std::min(rows_of_part(problem, features(problem)), problem.batch);
    const int64_t bytes = part * features(problem) * size_of(problem.dtype);
    void* const between = workspace.allocate(static_cast<size_t>(bytes), workspace.context);
    cudaError_t error = cudaSuccess;
    for (int64_t n = 0; n < problem.batch && error == cudaSuccess; n += part) {
      const Passes passes =
          describe_two_passes(problem, from_row(problem, operands, n), std::min(part, problem.batch - n), between);
      error = transpose(passes.x, stream);
      if (error == cudaSuccess) error = Second::launch(passes.product, passes.of_product, machine, workspace, stream);
    }
    return error;
  }
  static constexpr Configuration as(const char* name) { return {name, true, takes, seconds, launch}; }
};

template <int COLUMNS>
using OnePass = Product<ExchangeSource::interleaved, COLUMNS, 16>;

constexpr Configuration family[] = {
    OnePass<64>::as("one pass j16 r64"),         OnePass<96>::as("one pass j16 r96"),
    OnePass<128>::as("one pass j16 r128"),       TwoPasses<64, 16>::as("two passes j16 r64"),
    TwoPasses<96, 16>::as("two passes j16 r96"), TwoPasses<128, 16>::as("two passes j16 r128"),
    TwoPasses<64, 24>::as("two passes j24 r64"),
};

constexpr Configuration products[] = {
    TwoPasses<64, 16>::Second::as("j16 r64"),
    TwoPasses<96, 16>::Second::as("j16 r96"),
    TwoPasses<128, 16>::Second::as("j16 r128"),
    TwoPasses<64, 24>::Second::as("j24 r64"),
};

}  // namespace

Configurations exchange_configurations() { return {family, static_cast<int>(std::size(family))}; }
Configurations exchange_products() { return {products, static_cast<int>(std::size(products))}; }

#else

Configurations exchange_configurations() { return {nullptr, 0}; }
Configurations exchange_products() { return {nullptr, 0}; }

#endif

}  // namespace ksmm::hopper
