// The gradients of ksmm::ks_matmul, in differentiable steps, and the order in which it reads a weight best.
//
// In C++, since a formula in Python costs each product several microseconds, also where nobody asks for a gradient:
// half as much as a small product takes.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "operators.h"

namespace {

using Bias = std::optional<at::Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool first(std::string_view layout) { return layout == "batch_first"; }

// The kernel of the device, or of the compiler that traces: what lies below autograd.
at::Tensor product(const at::Tensor& x, const at::Tensor& weight, std::string_view layout, const Bias& bias,
                   std::string_view precision, int64_t configuration) {
  static const auto operation = c10::Dispatcher::singleton()
                                    .findSchemaOrThrow("ksmm::ks_matmul", "")
                                    .typed<at::Tensor(const at::Tensor&, const at::Tensor&, std::string_view,
                                                      const Bias&, std::string_view, int64_t)>();
  return operation.call(x, weight, layout, bias, precision, configuration);
}

// The same weight, stored in the order in which the kernel of its device reads; the operator takes any. Stored as
//   (a, c, b, d)  on a CPU in batch_first, and in float32, which few columns of batch_last multiply as they are there;
//   (a, d, c, b)  strict on CUDA, whose kernel copies rows of r to shared memory as they are;
//   (a, d, b, c)  otherwise; on CUDA with rows of k at multiples of 16 bytes.
at::Tensor pack(const at::Tensor& weight, std::string_view layout, std::string_view precision) {
  const bool on_cpu = weight.device().is_cpu();
  if (on_cpu && (first(layout) || weight.scalar_type() == at::kFloat))
    return weight.permute({0, 2, 1, 3}).contiguous().permute({0, 2, 1, 3});
  if (precision == "strict") return weight.permute({0, 3, 2, 1}).contiguous().permute({0, 3, 2, 1});
  const at::Tensor rows = weight.permute({0, 3, 1, 2});
  const c10::SymInt c = weight.sym_size(2);
  const int64_t multiple = on_cpu ? 1 : 16 / weight.element_size();
  const c10::SymInt padding = (multiple - c % multiple) % multiple;
  // Weights that are in this order already are taken as they are, but for parts of a storage that begin in between.
  if (padding.maybe_as_int() == 0 && (weight.sym_storage_offset() % multiple).maybe_as_int() == 0)
    return rows.contiguous().permute({0, 2, 3, 1});
  return at::constant_pad_nd_symint(rows, {0, padding}).contiguous().narrow_symint(3, 0, c).permute({0, 2, 3, 1});
}

// For one product. The CPU's kernel packs what it reads in any case, and from any order for less than a copy takes.
at::Tensor pack_once(const at::Tensor& weight, std::string_view layout, std::string_view precision) {
  return weight.device().is_cpu() ? weight : pack(weight, layout, precision);
}

// (batch, a·b·d) as a·d matrices (batch, b). With d > 1 a copy is needed, which stays within each row of the batch;
// what is read and what is written of a matrix (b, d) is then near each other.
at::Tensor planes_of_rows(const at::Tensor& features, const c10::SymInt& a, const c10::SymInt& b,
                          const c10::SymInt& d) {
  return features.reshape_symint({features.sym_size(0), a, b, d})
      .transpose(2, 3)
      .reshape_symint({features.sym_size(0), a * d, b})
      .transpose(0, 1);
}

// (a, d, b, c) as (a, b, c, d). With d = 1 that is contiguous, and has the strides of a weight that is: these are
// compared where gradients are put together (DistributedDataParallel), also those of a single element.
at::Tensor in_canonical_order(const at::Tensor& planes) {
  return planes.sym_size(1).maybe_as_int() == 1 ? planes.select(1, 0).unsqueeze(-1) : planes.permute({0, 2, 3, 1});
}

// Σ_n ∂Y[n, i, r, j] X[n, i, k, j], as batched matrix products, of (a, b, c, d).
at::Tensor weight_gradient_first(const at::Tensor& x, const at::Tensor& y_gradient, c10::SymIntArrayRef sizes) {
  const c10::SymInt &a = sizes[0], &b = sizes[1], &c = sizes[2], &d = sizes[3];
  const at::Tensor products = at::bmm(planes_of_rows(y_gradient, a, b, d).transpose(1, 2), planes_of_rows(x, a, c, d));
  return in_canonical_order(products.reshape_symint({a, d, b, c}));
}

// As above, of ∂Y[i, r, j, n] and X[i, k, j, n].
at::Tensor weight_gradient_last(const at::Tensor& x, const at::Tensor& y_gradient, c10::SymIntArrayRef sizes) {
  return in_canonical_order(ksmm::operators::weight_gradient_batched(x, y_gradient, sizes[0], sizes[3]));
}

// By the kernel of the device, which has no gradients of its own.
at::Tensor weight_gradient_by_kernel(const at::Tensor& x, const at::Tensor& y_gradient, std::string_view layout,
                                     c10::SymIntArrayRef sizes) {
  static const auto of_last = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("ksmm::weight_gradient", "")
                                  .typed<at::Tensor(const at::Tensor&, const at::Tensor&, c10::SymInt, c10::SymInt)>();
  static const auto of_first =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("ksmm::weight_gradient_first", "")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, c10::SymInt, c10::SymInt, int64_t)>();
  const at::AutoDispatchBelowADInplaceOrView guard;
  if (first(layout)) return of_first.call(x, y_gradient, sizes[0], sizes[3], -1);
  return in_canonical_order(of_last.call(x, y_gradient, sizes[0], sizes[3]));
}

// Whether it is the faster way. In float32 batch_last is summed in parts, which pays where tiles are fewer than four
// waves.
bool kernel_pays(const at::Tensor& x, const at::Tensor& y_gradient, std::string_view layout,
                 c10::SymIntArrayRef sizes) {
  if (!x.is_cuda() || x.scalar_type() != y_gradient.scalar_type() || at::GradMode::is_enabled()) return false;
  if (first(layout) || x.element_size() == 2) return true;
  const c10::SymInt &a = sizes[0], &b = sizes[1], &c = sizes[2], &d = sizes[3];
  return a * d > 1 && a * d * ((b + 127) / 128) * ((c + 127) / 128) <= 4 * ksmm::operators::wave_of_tiles;
}

// strict: in float32 by multiply-adds, whatever PyTorch's own products may do.
at::Tensor weight_gradient(const at::Tensor& x, const at::Tensor& y_gradient, std::string_view layout,
                           std::string_view precision, c10::SymIntArrayRef sizes) {
  std::optional<at::NoTF32Guard> guard;
  if (precision == "strict") guard.emplace();
  if (kernel_pays(x, y_gradient, layout, sizes)) return weight_gradient_by_kernel(x, y_gradient, layout, sizes);
  return first(layout) ? weight_gradient_first(x, y_gradient, sizes) : weight_gradient_last(x, y_gradient, sizes);
}

struct Product : torch::autograd::Function<Product> {
  static constexpr bool is_traceable = true;  // for compiled autograd: no state but what is saved

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            std::string_view layout, const Bias& bias, std::string_view precision,
                            int64_t configuration) {
    // Each is what the gradient of the other one takes; nobody keeps X, or minds a change of it, for a frozen weight.
    context->save_for_backward({weight.requires_grad() ? x : at::Tensor(), x.requires_grad() ? weight : at::Tensor()});
    context->saved_data["a"] = weight.sym_size(0), context->saved_data["d"] = weight.sym_size(3);
    context->saved_data["layout"] = std::string(layout);
    context->saved_data["precision"] = std::string(precision);
    context->saved_data["biased"] = bias.has_value();
    const at::AutoDispatchBelowADInplaceOrView guard;
    return product(x, weight, layout, bias, precision, configuration);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &y_gradient = gradients[0];
    const std::string layout = context->saved_data["layout"].toStringRef();
    const std::string precision = context->saved_data["precision"].toStringRef();
    at::Tensor of_x, of_weight, of_bias;
    if (!y_gradient.defined()) return {of_x, of_weight, {}, of_bias, {}, {}};
    // the factor with b and c exchanged is the transposed matrix
    if (context->needs_input_grad(0))
      of_x = product(y_gradient, pack_once(weight.transpose(1, 2), layout, precision), layout, std::nullopt, precision,
                     -1);
    if (context->needs_input_grad(1)) {
      const c10::SymInt a = context->saved_data["a"].toSymInt(), d = context->saved_data["d"].toSymInt();
      const int features = first(layout) ? 1 : 0;
      const c10::SymInt b = y_gradient.sym_size(features) / (a * d), c = x.sym_size(features) / (a * d);
      of_weight = weight_gradient(x, y_gradient, layout, precision, {a, b, c, d});
    }
    const bool biased = context->saved_data["biased"].toBool();  // only tensors that are there count as inputs
    if (biased && context->needs_input_grad(2)) of_bias = y_gradient.sum(first(layout) ? 0 : 1);
    return {of_x, of_weight, {}, of_bias, {}, {}};
  }
};

// Below autograd a tangent would be lost in silence: the operators say so instead.
void check_tangents(std::initializer_list<std::reference_wrapper<const at::Tensor>> operands, const Bias& bias) {
  bool found = bias && torch::autograd::isFwGradDefined(*bias);
  for (const at::Tensor& operand : operands) found = found || torch::autograd::isFwGradDefined(operand);
  TORCH_CHECK_NOT_IMPLEMENTED(
      !found, "the kernel has no forward-mode gradients; use the reverse mode, or implementation=\"bmm\"");
}

at::Tensor ks_matmul_autograd(const at::Tensor& x, const at::Tensor& weight, std::string_view layout, const Bias& bias,
                              std::string_view precision, int64_t configuration) {
  check_tangents({x, weight}, bias);
  const bool wanted = x.requires_grad() || weight.requires_grad() || (bias && bias->requires_grad());
  if (at::GradMode::is_enabled() && wanted) return Product::apply(x, weight, layout, bias, precision, configuration);
  const at::AutoDispatchBelowADInplaceOrView guard;
  return product(x, weight, layout, bias, precision, configuration);
}

// What is kept of a weight serves the product alone.
at::Tensor ks_matmul_kept_autograd(const at::Tensor& x, const at::Tensor& weight, std::string_view layout,
                                   const Bias& bias, std::string_view precision, int64_t configuration,
                                   at::TensorList kept) {
  check_tangents({x, weight}, bias);
  const bool wanted = x.requires_grad() || weight.requires_grad() || (bias && bias->requires_grad());
  if (at::GradMode::is_enabled() && wanted) return Product::apply(x, weight, layout, bias, precision, configuration);
  static const auto operation = c10::Dispatcher::singleton()
                                    .findSchemaOrThrow("ksmm::ks_matmul_kept", "")
                                    .typed<at::Tensor(const at::Tensor&, const at::Tensor&, std::string_view,
                                                      const Bias&, std::string_view, int64_t, at::TensorList)>();
  const at::AutoDispatchBelowADInplaceOrView guard;
  return operation.call(x, weight, layout, bias, precision, configuration, kept);
}

// Where gradients are wanted the features between the factors are needed, too: two products, with theirs.
at::Tensor ks_chain_autograd(const at::Tensor& x, const at::Tensor& outer, const at::Tensor& inner, const Bias& bias,
                             int64_t outer_configuration, int64_t inner_configuration, int64_t launches) {
  check_tangents({x, outer, inner}, bias);
  const bool wanted =
      x.requires_grad() || outer.requires_grad() || inner.requires_grad() || (bias && bias->requires_grad());
  if (at::GradMode::is_enabled() && wanted) {
    ksmm::operators::check_launches(launches);
    const at::Tensor between = product(x, inner, "batch_first", std::nullopt, "default", inner_configuration);
    return product(between, outer, "batch_first", bias, "default", outer_configuration);
  }
  static const auto operation = c10::Dispatcher::singleton()
                                    .findSchemaOrThrow("ksmm::ks_chain", "")
                                    .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                      const Bias&, int64_t, int64_t, int64_t)>();
  const at::AutoDispatchBelowADInplaceOrView guard;
  return operation.call(x, outer, inner, bias, outer_configuration, inner_configuration, launches);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(ksmm, library) {
  library.def("pack(Tensor weight, str layout, str precision=\"default\") -> Tensor", pack);
}

TORCH_LIBRARY_IMPL(ksmm, Autograd, library) {
  library.impl("ks_matmul", ks_matmul_autograd);
  library.impl("ks_matmul_kept", ks_matmul_kept_autograd);
  library.impl("ks_chain", ks_chain_autograd);
}
