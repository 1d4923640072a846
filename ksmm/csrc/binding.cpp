// The operator ksmm::ks_matmul: checks tensors, describes them to multiply_cpu or multiply_cuda, and nothing else.
//
// Its gradients are in gradients.cpp; the fake kernel is registered from Python (ksmm/implementations/kernel.py), where
// it is shorter. Python.h is not included, so that one library serves every Python version of a PyTorch build.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ks_matmul.h"

#ifdef KSMM_WITH_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace {

ksmm::Layout parse_layout(std::string_view layout) {
  if (layout == "batch_first") return ksmm::Layout::batch_first;
  if (layout == "batch_last") return ksmm::Layout::batch_last;
  TORCH_CHECK_VALUE(false, "unknown layout '", layout, "'; choose one of batch_first, batch_last");
}

ksmm::Dtype parse_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat: return ksmm::Dtype::float32;
    case at::kHalf: return ksmm::Dtype::float16;
    case at::kBFloat16: return ksmm::Dtype::bfloat16;
    default:
      TORCH_CHECK_VALUE(false, "ks_matmul: x has dtype ", dtype,
                        "; the kernel takes Float, Half and BFloat16: convert x and weight with .to(), or choose "
                        "another implementation");
  }
}

// Since PyTorch 2.9 the precision of matrix products is asked for by name, later by enumerations; where it was set so,
// the older function refuses to answer.
bool is_tf32(const at::Context& context,
             std::string (at::Context::*ask)(const std::string&, const std::string&) const) {
  return (context.*ask)("cuda", "matmul") == "tf32";
}
template <class Answer, class Backend, class Operation>
bool is_tf32(const at::Context& context, Answer (at::Context::*ask)(Backend, Operation) const) {
  return (context.*ask)(Backend::CUDA, Operation::MATMUL) == Answer::TF32;
}
template <class Context>
bool allows_tf32(const Context& context) {
  if constexpr (requires { &Context::float32Precision; })
    return is_tf32(context, &Context::float32Precision);
  else
    return context.allowTF32CuBLAS();
}

ksmm::Precision parse_precision(std::string_view precision, const at::Tensor& x) {
  if (precision == "strict") return ksmm::Precision::strict;
  TORCH_CHECK_VALUE(precision == "default", "unknown precision '", precision, "'; choose one of default, strict");
  // What PyTorch's own products would do on this device, but that the default is no worse than float32.
  return x.is_cuda() && allows_tf32(at::globalContext()) ? ksmm::Precision::tf32 : ksmm::Precision::compensated;
}

ksmm::Problem describe(const at::Tensor& x, const at::Tensor& weight, std::string_view layout_name,
                       std::string_view precision) {
  const ksmm::Layout layout = parse_layout(layout_name);
  TORCH_CHECK_VALUE(weight.dim() == 4 && weight.numel() > 0, "ks_matmul: weight has shape ", weight.sizes(),
                    "; the canonical weight of a pattern has shape (a, b, c, d), each at least 1");
  TORCH_CHECK_VALUE(x.dim() == 2, "ks_matmul: x has ", x.dim(), " dimensions; the operator takes a matrix, ",
                    "(B, a·c·d) in batch_first or (a·c·d, B) in batch_last: reshape x, or call ksmm.ks_matmul");
  TORCH_CHECK_VALUE(x.scalar_type() == weight.scalar_type(), "ks_matmul: x has dtype ", x.scalar_type(), " and weight ",
                    weight.scalar_type(), "; convert one of them with .to()");
  TORCH_CHECK_VALUE(x.device() == weight.device(), "ks_matmul: x is on ", x.device(), " and weight on ",
                    weight.device(), "; move one of them with .to()");
  const int64_t a = weight.size(0), b = weight.size(1), c = weight.size(2), d = weight.size(3);
  const int features = layout == ksmm::Layout::batch_first ? 1 : 0;
  TORCH_CHECK_VALUE(x.size(features) == a * c * d, "ks_matmul: x has shape ", x.sizes(), "; dimension ", features,
                    " must be a·c·d = ", a * c * d, " in ", layout_name, " for a weight of shape ", weight.sizes());
  return {a, b, c, d, x.size(1 - features), parse_dtype(x.scalar_type()), layout, parse_precision(precision, x)};
}

void check_bias(const ksmm::Problem& problem, const at::Tensor& x, const std::optional<at::Tensor>& bias) {
  if (!bias) return;
  const int64_t rows = problem.a * problem.b * problem.d;
  TORCH_CHECK_VALUE(bias->dim() == 1 && bias->size(0) == rows, "ks_matmul: bias has shape ", bias->sizes(),
                    "; it must have one element for each of the a·b·d = ", rows, " output features");
  TORCH_CHECK_VALUE(bias->scalar_type() == x.scalar_type() && bias->device() == x.device(), "ks_matmul: bias is ",
                    bias->scalar_type(), " on ", bias->device(), " and x ", x.scalar_type(), " on ", x.device(),
                    "; convert one of them with .to()");
}

at::Tensor empty_output(const ksmm::Problem& problem, const at::Tensor& x) {
  const int64_t rows = problem.a * problem.b * problem.d;
  if (problem.layout == ksmm::Layout::batch_first) return at::empty({problem.batch, rows}, x.options());
  return at::empty({rows, problem.batch}, x.options());
}

at::Tensor with_contiguous_rows(const at::Tensor& x) { return x.size(1) == 1 || x.stride(1) == 1 ? x : x.contiguous(); }

ksmm::Operands operands(const at::Tensor& x, const at::Tensor& weight, const at::Tensor* bias, const at::Tensor& y) {
  return {x.const_data_ptr(),
          x.stride(0),
          weight.const_data_ptr(),
          {weight.stride(0), weight.stride(1), weight.stride(2), weight.stride(3)},
          bias ? bias->const_data_ptr() : nullptr,
          y.mutable_data_ptr()};
}

// PyTorch's own threads, as many as torch.set_num_threads says.
void parallel_for(int64_t count, ksmm::Body body, void* context) {
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) { body(begin, end, context); });
}

using Bias = std::optional<at::Tensor>;

at::Tensor ks_matmul_cpu(const at::Tensor& x, const at::Tensor& weight, std::string_view layout, const Bias& bias,
                         std::string_view precision, int64_t) {
  const ksmm::Problem problem = describe(x, weight, layout, precision);
  check_bias(problem, x, bias);
  const at::Tensor y = empty_output(problem, x);
  if (problem.batch == 0) return y;
  const at::Tensor rows = with_contiguous_rows(x), addend = bias ? bias->contiguous() : at::Tensor();
  ksmm::multiply_cpu(problem, operands(rows, weight, bias ? &addend : nullptr, y), parallel_for);
  return y;
}

void check_chain(const at::Tensor& x, const at::Tensor& outer, const at::Tensor& inner, int64_t launches) {
  TORCH_CHECK_VALUE(launches >= 0 && launches <= 2, "ks_chain: launches is ", launches,
                    "; 1 and 2 are possible, and 0 for whichever is predicted to be faster");
  TORCH_CHECK_VALUE(outer.dim() == 4 && inner.dim() == 4, "ks_chain: the weights have shapes ", outer.sizes(), " and ",
                    inner.sizes(), "; canonical weights have shape (a, b, c, d)");
  TORCH_CHECK_VALUE(outer.scalar_type() == x.scalar_type() && outer.device() == x.device(),
                    "ks_chain: the outer weight is ", outer.scalar_type(), " on ", outer.device(), " and x ",
                    x.scalar_type(), " on ", x.device(), "; convert one of them with .to()");
  const int64_t needed = outer.size(0) * outer.size(2) * outer.size(3),
                given = inner.size(0) * inner.size(1) * inner.size(3);
  TORCH_CHECK_VALUE(needed == given, "ks_chain: the outer factor takes ", needed, " features and the inner one gives ",
                    given, "; the weights are ", outer.sizes(), " and ", inner.sizes());
}

at::Tensor ks_chain_cpu(const at::Tensor& x, const at::Tensor& outer, const at::Tensor& inner, const Bias& bias,
                        int64_t, int64_t, int64_t launches) {
  check_chain(x, outer, inner, launches);
  const at::Tensor between = ks_matmul_cpu(x, inner, "batch_first", std::nullopt, "default", -1);
  return ks_matmul_cpu(between, outer, "batch_first", bias, "default", -1);
}

// (batch, a·b·d) as (batch, a, d, b): neighbours in b, which belong to one product, become neighbours in memory. A copy
// also where b or d is 1 and nothing moves: operators that may return their argument have another schema.
void check_planes(const at::Tensor& x, int64_t a, int64_t d) {
  TORCH_CHECK_VALUE(x.dim() == 2 && a > 0 && d > 0 && x.size(1) % (a * d) == 0, "planes: x has shape ", x.sizes(),
                    "; it must be (batch, features), of which a·d = ", a, "·", d, " divides the second");
}

at::Tensor planes_cpu(const at::Tensor& x, int64_t a, int64_t d) {
  check_planes(x, a, d);
  return x.reshape({x.size(0), a, x.size(1) / (a * d), d}).transpose(2, 3).clone(at::MemoryFormat::Contiguous);
}

// Operands in batch_last: X has a·c·d rows, ∂Y a·b·d.
void check_gradient(const at::Tensor& x, const at::Tensor& y, int64_t a, int64_t d) {
  const auto fits = [&](const at::Tensor& rows) { return rows.dim() == 2 && rows.size(0) % (a * d) == 0; };
  TORCH_CHECK_VALUE(a > 0 && d > 0 && fits(x) && fits(y) && x.size(1) == y.size(1) &&
                        x.scalar_type() == y.scalar_type() && x.device() == y.device(),
                    "weight_gradient: x has shape ", x.sizes(), " and the gradient of y ", y.sizes(),
                    "; both must be (features, batch) of one dtype on one device, with features that a·d = ", a, "·", d,
                    " divides");
}

// Of shape (a, d, b, c), by batched products; where a or d is 1 nothing is copied for them.
at::Tensor weight_gradient_batched(const at::Tensor& x, const at::Tensor& y, int64_t a, int64_t d) {
  check_gradient(x, y, a, d);
  const auto planes = [&](const at::Tensor& rows) {
    const int64_t size = rows.size(0) / (a * d);
    return rows.unflatten(0, {a, size, d}).transpose(1, 2).reshape({a * d, size, rows.size(1)});
  };
  return at::bmm(planes(y), planes(x).transpose(1, 2)).unflatten(0, {a, d});
}

#ifdef KSMM_WITH_CUDA
// Memory of PyTorch's caching allocator, which may be handed out again once the launches before it are queued.
struct Scratch {
  at::TensorOptions options;
  std::vector<at::Tensor> tensors;

  static void* allocate(size_t bytes, void* context) {
    auto& scratch = *static_cast<Scratch*>(context);
    scratch.tensors.push_back(at::empty({static_cast<int64_t>(bytes)}, scratch.options));
    return scratch.tensors.back().mutable_data_ptr();
  }
};

at::Tensor ks_matmul_cuda(const at::Tensor& x, const at::Tensor& weight, std::string_view layout, const Bias& bias,
                          std::string_view precision, int64_t configuration) {
  const ksmm::Problem problem = describe(x, weight, layout, precision);
  check_bias(problem, x, bias);
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor y = empty_output(problem, x);
  if (problem.batch == 0) return y;
  const at::Tensor rows = with_contiguous_rows(x), addend = bias ? bias->contiguous() : at::Tensor();
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(x.device().index()).stream();
  Scratch scratch{x.options().dtype(at::kByte), {}};
  const auto error = static_cast<cudaError_t>(
      ksmm::multiply_cuda(problem, operands(rows, weight, bias ? &addend : nullptr, y), static_cast<int>(configuration),
                          {Scratch::allocate, &scratch}, stream));
  C10_CUDA_CHECK(error);
  return y;
}

// Where the weights are packed and a kernel takes both factors, in one launch: always, or where that pays.
std::optional<at::Tensor> fused_chain(const at::Tensor& x, const at::Tensor& outer, const at::Tensor& inner,
                                      const Bias& bias, bool always) {
  const ksmm::Problem first = describe(x, inner, "batch_first", "default");
  const int64_t a = outer.size(0), b = outer.size(1), c = outer.size(2), d = outer.size(3);
  const ksmm::Problem second{a, b, c, d, first.batch, first.dtype, first.layout, first.precision};
  if (first.batch == 0 || first.a * first.b * first.d != a * c * d) return std::nullopt;
  const c10::cuda::CUDAGuard guard(x.device());
  if (!always && !ksmm::chain_pays(first, second)) return std::nullopt;
  check_bias(second, x, bias);
  const at::Tensor y = empty_output(second, x);
  const at::Tensor rows = with_contiguous_rows(x), addend = bias ? bias->contiguous() : at::Tensor();
  const ksmm::Operands of_inner = operands(rows, inner, nullptr, y),
                       of_outer = operands(rows, outer, bias ? &addend : nullptr, y);
  int error = 0;
  if (!ksmm::multiply_chain_cuda(first, of_inner, second, of_outer,
                                 c10::cuda::getCurrentCUDAStream(x.device().index()).stream(), &error))
    return std::nullopt;
  C10_CUDA_CHECK(static_cast<cudaError_t>(error));
  return y;
}

at::Tensor ks_chain_cuda(const at::Tensor& x, const at::Tensor& outer, const at::Tensor& inner, const Bias& bias,
                         int64_t outer_configuration, int64_t inner_configuration, int64_t launches) {
  check_chain(x, outer, inner, launches);
  if (launches != 2)
    if (std::optional<at::Tensor> y = fused_chain(x, outer, inner, bias, launches == 1)) return *y;
  const at::Tensor between = ks_matmul_cuda(x, inner, "batch_first", std::nullopt, "default", inner_configuration);
  return ks_matmul_cuda(between, outer, "batch_first", bias, "default", outer_configuration);
}

at::Tensor planes_cuda(const at::Tensor& x, int64_t a, int64_t d) {
  check_planes(x, a, d);
  const int64_t batch = x.size(0), b = x.size(1) / (a * d);
  if (d == 1 || b == 1 || x.numel() == 0) return planes_cpu(x, a, d);
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor rows = x.contiguous(), planes = at::empty({batch, a, d, b}, x.options());
  int error = 0;
  const auto element_bytes = static_cast<int>(x.element_size());
  if (!ksmm::transpose_cuda(element_bytes, rows.const_data_ptr(), planes.mutable_data_ptr(), batch * a, b, d,
                            c10::cuda::getCurrentCUDAStream(x.device().index()).stream(), &error))
    return planes_cpu(x, a, d);
  C10_CUDA_CHECK(static_cast<cudaError_t>(error));
  return planes;
}

at::Tensor weight_gradient_cuda(const at::Tensor& x, const at::Tensor& y, int64_t a, int64_t d) {
  check_gradient(x, y, a, d);
  if (x.element_size() != 2 || x.numel() == 0) return weight_gradient_batched(x, y, a, d);
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor of_x = with_contiguous_rows(x), of_y = with_contiguous_rows(y);
  const int64_t b = y.size(0) / (a * d), c = x.size(0) / (a * d);
  const ksmm::WeightGradient of = {parse_dtype(x.scalar_type()),
                                   a,
                                   b,
                                   c,
                                   d,
                                   x.size(1),
                                   of_x.const_data_ptr(),
                                   of_x.stride(0),
                                   of_y.const_data_ptr(),
                                   of_y.stride(0)};
  const int64_t parts = ksmm::weight_gradient_parts(of);
  // with work for all multiprocessors, batched products are as fast if they need no copy
  if (parts == 0 || (parts == 1 && (a == 1 || d == 1))) return weight_gradient_batched(x, y, a, d);
  const at::Tensor products = at::empty({parts, a, d, b, c}, x.options());
  const auto stream = c10::cuda::getCurrentCUDAStream(x.device().index()).stream();
  C10_CUDA_CHECK(static_cast<cudaError_t>(ksmm::weight_gradient_cuda(of, parts, products.mutable_data_ptr(), stream)));
  return parts == 1 ? products.select(0, 0) : products.sum(0);
}

// For each configuration that takes the problem its number and name, the cost model's choice first.
std::vector<std::string> configurations(const at::Tensor& x, const at::Tensor& weight, std::string_view layout,
                                        std::string_view precision) {
  const ksmm::Problem problem = describe(x, weight, layout, precision);
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor y = empty_output(problem, x), rows = with_contiguous_rows(x);
  const ksmm::Operands all = operands(rows, weight, nullptr, y);
  const int chosen = ksmm::choose_configuration(problem, all);
  const auto entry = [](int number) { return std::to_string(number) + " " + ksmm::configuration_name(number); };
  std::vector<std::string> names = {entry(chosen)};
  for (int number = 0; number < ksmm::configuration_count(); ++number)
    if (number != chosen && ksmm::configuration_takes(number, problem, all)) names.push_back(entry(number));
  return names;
}
#endif

}  // namespace

TORCH_LIBRARY(ksmm, library) {
  library.def(
      "ks_matmul(Tensor x, Tensor weight, str layout, Tensor? bias=None, str precision=\"default\", "
      "int configuration=-1) -> Tensor",
      {at::Tag::pt2_compliant_tag});
  library.def(
      "ks_chain(Tensor x, Tensor outer, Tensor inner, Tensor? bias=None, int outer_configuration=-1, "
      "int inner_configuration=-1, int launches=0) -> Tensor",
      {at::Tag::pt2_compliant_tag});
  library.def("planes(Tensor x, SymInt a, SymInt d) -> Tensor", {at::Tag::pt2_compliant_tag});
  library.def("weight_gradient(Tensor x, Tensor y_gradient, SymInt a, SymInt d) -> Tensor",
              {at::Tag::pt2_compliant_tag});
  library.def("configurations(Tensor x, Tensor weight, str layout, str precision=\"default\") -> str[]");
}

TORCH_LIBRARY_IMPL(ksmm, CPU, library) {
  library.impl("ks_matmul", ks_matmul_cpu);
  library.impl("ks_chain", ks_chain_cpu);
  library.impl("planes", planes_cpu);
  library.impl("weight_gradient", weight_gradient_batched);
}

#ifdef KSMM_WITH_CUDA
TORCH_LIBRARY_IMPL(ksmm, CUDA, library) {
  library.impl("ks_matmul", ks_matmul_cuda);
  library.impl("ks_chain", ks_chain_cuda);
  library.impl("planes", planes_cuda);
  library.impl("weight_gradient", weight_gradient_cuda);
  library.impl("configurations", configurations);
}
#endif
