#include "operators.h"

#include <ATen/Context.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <string>
#include <vector>

namespace ksmm::operators {
namespace {

ksmm::Layout parse_layout(std::string_view layout) {
  if (layout == "batch_first") return ksmm::Layout::batch_first;
  if (layout == "batch_last") return ksmm::Layout::batch_last;
  TORCH_CHECK_VALUE(false, "unknown layout '", layout, "'; choose one of batch_first, batch_last");
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
  // What PyTorch's own products would do on this device, but that the default is about as exact as float32
  // multiply-adds (docs/float32.md). It takes PyTorch some time to say, and matters to float32 alone.
  const bool matters = x.is_cuda() && x.scalar_type() == at::kFloat;
  return matters && allows_tf32(at::globalContext()) ? ksmm::Precision::tf32 : ksmm::Precision::compensated;
}

// Whether a·d, which may be more than 64 bits hold, divides the features.
bool divides(int64_t a, int64_t d, int64_t features) {
  return a > 0 && d > 0 && a <= INT64_MAX / d && features % (a * d) == 0;
}

}  // namespace

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

void check_launches(int64_t launches) {
  TORCH_CHECK_VALUE(launches >= 0 && launches <= 2, "ks_chain: launches is ", launches,
                    "; 1 and 2 are possible, and 0 for whichever is predicted to be faster");
}

void check_chain(const at::Tensor& x, const at::Tensor& outer, const at::Tensor& inner, int64_t launches) {
  check_launches(launches);
  const auto is_canonical = [](const at::Tensor& weight) { return weight.dim() == 4 && weight.numel() > 0; };
  TORCH_CHECK_VALUE(is_canonical(outer) && is_canonical(inner), "ks_chain: the weights have shapes ", outer.sizes(),
                    " and ", inner.sizes(), "; canonical weights have shape (a, b, c, d), each at least 1");
  TORCH_CHECK_VALUE(outer.scalar_type() == x.scalar_type() && outer.device() == x.device(),
                    "ks_chain: the outer weight is ", outer.scalar_type(), " on ", outer.device(), " and x ",
                    x.scalar_type(), " on ", x.device(), "; convert one of them with .to()");
  const int64_t needed = outer.size(0) * outer.size(2) * outer.size(3),
                given = inner.size(0) * inner.size(1) * inner.size(3);
  TORCH_CHECK_VALUE(needed == given, "ks_chain: the outer factor takes ", needed, " features and the inner one gives ",
                    given, "; the weights are ", outer.sizes(), " and ", inner.sizes());
}

void check_planes(const at::Tensor& x, int64_t a, int64_t d) {
  TORCH_CHECK_VALUE(x.dim() == 2 && divides(a, d, x.size(1)), "planes: x has shape ", x.sizes(),
                    "; it must be (batch, features), of which a·d = ", a, "·", d, " divides the second");
}

at::Tensor planes_permuted(const at::Tensor& x, int64_t a, int64_t d) {
  check_planes(x, a, d);
  return x.reshape({x.size(0), a, x.size(1) / (a * d), d}).transpose(2, 3).clone(at::MemoryFormat::Contiguous);
}

void check_gradient(const at::Tensor& x, const at::Tensor& y, bool first, int64_t a, int64_t d) {
  const auto fits = [&](const at::Tensor& rows) { return rows.dim() == 2 && divides(a, d, rows.size(first)); };
  TORCH_CHECK_VALUE(fits(x) && fits(y) && x.size(!first) == y.size(!first) && x.scalar_type() == y.scalar_type() &&
                        x.device() == y.device(),
                    first ? "weight_gradient_first" : "weight_gradient", ": x has shape ", x.sizes(),
                    " and the gradient of y ", y.sizes(), "; both must be ",
                    first ? "(batch, features)" : "(features, batch)",
                    " of one dtype on one device, with features that a·d = ", a, "·", d, " divides");
}

void check_gradient_first(const at::Tensor& x, const at::Tensor& y, int64_t a, int64_t d, int64_t parts) {
  check_gradient(x, y, true, a, d);
  TORCH_CHECK_VALUE(
      parts >= -1, "weight_gradient_first: parts is ", parts,
      "; it is a number of parts of the batch, 0 for copies of planes, or -1 for what the cost model picks");
}

at::Tensor weight_gradient_of_planes(const at::Tensor& x, const at::Tensor& y, int64_t a, int64_t d, Planes planes) {
  const auto matrices = [&](const at::Tensor& of) {  // a·d of them, (batch, b)
    const int64_t n = of.size(0), b = of.size(1) / (a * d);
    return (d == 1 ? of.reshape({n, a, b}) : planes(of, a, d).view({n, a * d, b})).transpose(0, 1);
  };
  return at::bmm(matrices(y).transpose(1, 2), matrices(x)).unflatten(0, {a, d}).permute({0, 2, 3, 1}).contiguous();
}

at::Tensor weight_gradient_batched(const at::Tensor& x, const at::Tensor& y, const c10::SymInt& a,
                                   const c10::SymInt& d) {
  const c10::SymInt b = y.sym_size(0) / (a * d), c = x.sym_size(0) / (a * d), n = x.sym_size(1);
  const at::Tensor of_y = y.reshape_symint({a, b, d, n}).transpose(1, 2);
  const at::Tensor of_x = x.reshape_symint({a, c, d, n}).transpose(1, 2);
  const int64_t dimension = a >= d ? 1 : 0, calls = (a >= d ? d : a).guard_int(__FILE__, __LINE__);
  if (calls > most_batched_calls)
    return at::bmm(of_y.reshape_symint({a * d, b, n}), of_x.reshape_symint({a * d, c, n}).transpose(1, 2))
        .reshape_symint({a, d, b, c});
  std::vector<at::Tensor> parts;
  for (int64_t at = 0; at < calls; ++at)
    parts.push_back(at::bmm(of_y.select(dimension, at), of_x.select(dimension, at).transpose(1, 2)));
  return calls == 1 ? parts[0].unsqueeze(dimension) : at::stack(parts, dimension);
}

at::Tensor weight_gradient_in_parts(const at::Tensor& x, const at::Tensor& y, int64_t a, int64_t d, int64_t parts) {
  const int64_t n = x.size(1), part = n / parts, whole = parts * part;
  const auto matrices = [&](const at::Tensor& of) {  // (a, d, parts, b, part), of which the first three are one
    const at::Tensor cut = of.narrow(1, 0, whole).unflatten(1, {parts, part}).unflatten(0, {a, -1, d});
    return cut.permute({0, 2, 3, 1, 4}).reshape({a * d * parts, of.size(0) / (a * d), part});
  };
  const at::Tensor products = at::bmm(matrices(y), matrices(x).transpose(1, 2)).unflatten(0, {a, d, parts}).sum(2);
  if (whole == n) return products;
  return products.add(weight_gradient_batched(x.narrow(1, whole, n - whole), y.narrow(1, whole, n - whole), a, d));
}

}  // namespace ksmm::operators
