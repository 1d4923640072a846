// The operators on the CPU.
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>

#include "operators.h"

namespace {

using namespace ksmm::operators;

void run_in_parallel(int64_t count, ksmm::Body body, void* context) {
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) { body(begin, end, context); });
}

// PyTorch's own threads, as many as torch.set_num_threads says.
ksmm::ParallelFor threads() { return {at::get_num_threads(), run_in_parallel}; }

at::Tensor ks_matmul_cpu(const at::Tensor& x, const at::Tensor& weight, std::string_view layout, const Bias& bias,
                         std::string_view precision, int64_t) {
  const ksmm::Problem problem = describe(x, weight, layout, precision);
  check_bias(problem, x, bias);
  const at::Tensor y = empty_output(problem, x);
  if (problem.batch == 0) return y;
  const at::Tensor rows = with_contiguous_rows(x), addend = bias ? bias->contiguous() : at::Tensor();
  ksmm::multiply_cpu(problem, operands(rows, weight, bias ? &addend : nullptr, y), threads());
  return y;
}

at::Tensor ks_chain_cpu(const at::Tensor& x, const at::Tensor& outer, const at::Tensor& inner, const Bias& bias,
                        int64_t, int64_t, int64_t launches) {
  check_chain(x, outer, inner, launches);
  const at::Tensor between = ks_matmul_cpu(x, inner, "batch_first", std::nullopt, "default", -1);
  return ks_matmul_cpu(between, outer, "batch_first", bias, "default", -1);
}

at::Tensor weight_gradient_cpu(const at::Tensor& x, const at::Tensor& y, int64_t a, int64_t d) {
  check_gradient(x, y, false, a, d);
  return weight_gradient_batched(x, y, a, d);
}

// Sums in float32 are of 64 rows, and then of those: PyTorch's products add row after row, with errors that grow with
// the root of their number. Of more rows where the parts would be larger than x and y.
at::Tensor weight_gradient_first_cpu(const at::Tensor& x, const at::Tensor& y, int64_t a, int64_t d, int64_t wanted) {
  check_gradient_first(x, y, a, d, wanted);
  const int64_t n = x.size(0), c = x.size(1) / (a * d), b = y.size(1) / (a * d);
  const int64_t parts = b * c == 0 ? 0 : std::min(n / 64, n * (b + c) / (b * c));
  if (x.scalar_type() != at::kFloat || parts < 2) return weight_gradient_of_planes(x, y, a, d, planes_permuted);
  return weight_gradient_in_parts(x.t(), y.t(), a, d, parts).permute({0, 2, 3, 1}).contiguous();
}

}  // namespace

TORCH_LIBRARY_IMPL(ksmm, CPU, library) {
  library.impl("ks_matmul", ks_matmul_cpu);
  library.impl("ks_chain", ks_chain_cpu);
  library.impl("planes", planes_permuted);
  library.impl("weight_gradient", weight_gradient_cpu);
  library.impl("weight_gradient_first", weight_gradient_first_cpu);
}
