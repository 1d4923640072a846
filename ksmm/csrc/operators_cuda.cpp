// The operators on CUDA devices.
#ifdef KSMM_WITH_CUDA
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "operators.h"

namespace {

using namespace ksmm::operators;

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

// Of a configuration; of what is none -1, which leaves the choice to the cost model.
int number_of(int64_t configuration) {
  return configuration >= 0 && configuration < ksmm::configuration_count() ? static_cast<int>(configuration) : -1;
}

// `prepared`: of the weight in this configuration, or nothing.
at::Tensor multiply(const ksmm::Problem& problem, const at::Tensor& x, const at::Tensor& weight, const Bias& bias,
                    int64_t configuration, const ksmm::PreparedWeight& prepared) {
  check_bias(problem, x, bias);
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor y = empty_output(problem, x);
  if (problem.batch == 0) return y;
  const at::Tensor rows = with_contiguous_rows(x), addend = bias ? bias->contiguous() : at::Tensor();
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(x.device().index()).stream();
  Scratch scratch{x.options().dtype(at::kByte), {}};
  ksmm::Operands all = operands(rows, weight, bias ? &addend : nullptr, y);
  all.prepared = prepared;
  const auto error = static_cast<cudaError_t>(
      ksmm::multiply_cuda(problem, all, number_of(configuration), {Scratch::allocate, &scratch}, stream));
  C10_CUDA_CHECK(error);
  return y;
}

at::Tensor ks_matmul_cuda(const at::Tensor& x, const at::Tensor& weight, std::string_view layout, const Bias& bias,
                          std::string_view precision, int64_t configuration) {
  return multiply(describe(x, weight, layout, precision), x, weight, bias, configuration, {});
}

// With what keep() returned for this weight and configuration.
at::Tensor ks_matmul_kept_cuda(const at::Tensor& x, const at::Tensor& weight, std::string_view layout, const Bias& bias,
                               std::string_view precision, int64_t configuration, at::TensorList kept) {
  const ksmm::Problem problem = describe(x, weight, layout, precision);
  const ksmm::KeptWeight expected = ksmm::kept_weight(number_of(configuration), problem);
  ksmm::PreparedWeight prepared = {expected.owner, {}};
  size_t count = 0;
  for (const int64_t bytes : expected.bytes) {
    if (bytes == 0) break;
    const bool fits = count < kept.size() && kept[count].device() == x.device() &&
                      kept[count].scalar_type() == at::kByte && kept[count].is_contiguous() &&
                      kept[count].numel() == bytes &&
                      reinterpret_cast<uintptr_t>(kept[count].const_data_ptr()) % 16 == 0;  // for the copy engine
    TORCH_CHECK_VALUE(fits, "ks_matmul_kept: tensor ", count, " of `kept` is not what configuration ", configuration,
                      " makes of a weight of shape ", weight.sizes(), ": ", bytes, " bytes on ", x.device(),
                      ", from a multiple of 16 on; call ksmm::keep for this weight and configuration");
    prepared.places[count] = kept[count].const_data_ptr(), ++count;
  }
  TORCH_CHECK_VALUE(count > 0 && count == kept.size(), "ks_matmul_kept: `kept` has ", kept.size(),
                    " tensors, and configuration ", configuration, " makes ", count,
                    "; call ksmm::keep, and ksmm::ks_matmul where it returns none");
  return multiply(problem, x, weight, bias, configuration, prepared);
}

// What the configuration that these operands are multiplied in makes of the weight, and its number.
std::tuple<int64_t, std::vector<at::Tensor>> keep_cuda(const at::Tensor& x, const at::Tensor& weight,
                                                       std::string_view layout, std::string_view precision,
                                                       int64_t configuration) {
  const ksmm::Problem problem = describe(x, weight, layout, precision);
  if (problem.batch == 0) return {configuration, {}};
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor y = at::empty({0}, x.options()), rows = with_contiguous_rows(x);  // Y itself is not touched
  ksmm::Operands all = operands(rows, weight, nullptr, y);
  Scratch scratch{x.options().dtype(at::kByte), {}};
  int chosen = -1;
  C10_CUDA_CHECK(static_cast<cudaError_t>(
      ksmm::prepare_weight_cuda(problem, &all, number_of(configuration), &chosen, {Scratch::allocate, &scratch},
                                c10::cuda::getCurrentCUDAStream(x.device().index()).stream())));
  std::vector<at::Tensor> kept;
  for (const void* place : all.prepared.places)
    for (const at::Tensor& tensor : scratch.tensors)
      if (place != nullptr && tensor.const_data_ptr() == place) kept.push_back(tensor);
  return {chosen, kept};
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
  if (d == 1 || b == 1 || x.numel() == 0) return planes_permuted(x, a, d);
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor rows = x.contiguous(), planes = at::empty({batch, a, d, b}, x.options());
  int error = 0;
  const auto element_bytes = static_cast<int>(x.element_size());
  if (!ksmm::transpose_cuda(element_bytes, rows.const_data_ptr(), planes.mutable_data_ptr(), batch * a, b, d,
                            c10::cuda::getCurrentCUDAStream(x.device().index()).stream(), &error))
    return planes_permuted(x, a, d);
  C10_CUDA_CHECK(static_cast<cudaError_t>(error));
  return planes;
}

// Whether batched products that copy nothing are as fast as the kernel: measured on an H200 in float16, with 25,088 and
// 4,096 columns. They need tiles for a good part of the multiprocessors, and take the host 12 µs a call.
bool batched_products_pay(const ksmm::WeightGradient& of) {
  const int64_t calls = std::min(of.a, of.d);
  const int64_t tiles = of.a * of.d * ((of.b + 127) / 128) * ((of.c + 127) / 128);
  const double bytes = 2.0 * static_cast<double>(of.a * of.d * (of.b + of.c)) * static_cast<double>(of.batch);
  return calls <= most_batched_calls && tiles >= 16 &&
         (calls == 1 || bytes / 4e12 > 12e-6 * static_cast<double>(calls));
}

// How many parts of the batch give each multiprocessor up to eight of so many tiles, with sums that are long enough
// each.
int64_t parts_for(int64_t tiles, int64_t batch) {
  constexpr int64_t shortest_sum = 1024;
  int64_t parts = 1;
  while (2 * parts * tiles <= 8 * wave_of_tiles && batch / (2 * parts) >= shortest_sum) parts *= 2;
  return parts;
}

// In float32 cuBLAS has the products of each (i, j) in tiles that are few for a GPU where b and c are small, each with
// a sum over the whole batch.
at::Tensor weight_gradient_float32(const at::Tensor& x, const at::Tensor& y, int64_t a, int64_t d) {
  const int64_t b = y.size(0) / (a * d), c = x.size(0) / (a * d), n = x.size(1);
  const int64_t tiles = d * ((b + 127) / 128) * ((c + 127) / 128);  // of an i
  const int64_t parts = parts_for(tiles, n), parts_of_all = parts_for(a * tiles, n);
  if (parts_of_all == 1) return weight_gradient_batched(x, y, a, d);
  if (a == 1 || a > most_batched_calls || tiles * parts < wave_of_tiles)
    return weight_gradient_in_parts(x, y, a, d, a == 1 ? parts : parts_of_all);
  std::vector<at::Tensor> of_i;  // without copies
  for (int64_t i = 0; i < a; ++i)
    of_i.push_back(weight_gradient_in_parts(x.narrow(0, i * c * d, c * d), y.narrow(0, i * b * d, b * d), 1, d, parts));
  return at::cat(of_i);
}

// Of matrices with contiguous rows.
ksmm::WeightGradient describe_gradient(const at::Tensor& x, const at::Tensor& y, bool first, int64_t a, int64_t d) {
  const int64_t b = y.size(first) / (a * d), c = x.size(first) / (a * d);
  return {parse_dtype(x.scalar_type()), a,          b, c, d, x.size(!first), x.const_data_ptr(), x.stride(0),
          y.const_data_ptr(),           y.stride(0)};
}

at::Tensor weight_gradient_cuda(const at::Tensor& x, const at::Tensor& y, int64_t a, int64_t d) {
  check_gradient(x, y, false, a, d);
  if (x.numel() == 0 || y.numel() == 0) return weight_gradient_batched(x, y, a, d);
  if (x.element_size() != 2) return weight_gradient_float32(x, y, a, d);
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor of_x = with_contiguous_rows(x), of_y = with_contiguous_rows(y);
  const ksmm::WeightGradient of = describe_gradient(of_x, of_y, false, a, d);
  if (batched_products_pay(of)) return weight_gradient_batched(x, y, a, d);
  const int64_t parts = ksmm::weight_gradient_parts(of);
  if (parts == 0 || (parts == 1 && (a == 1 || d == 1))) return weight_gradient_batched(x, y, a, d);
  const at::Tensor products = at::empty({parts, a, d, of.b, of.c}, x.options());
  const auto stream = c10::cuda::getCurrentCUDAStream(x.device().index()).stream();
  C10_CUDA_CHECK(static_cast<cudaError_t>(ksmm::weight_gradient_cuda(of, parts, products.mutable_data_ptr(), stream)));
  return parts == 1 ? products.select(0, 0) : products.sum(0);
}

// (batch, features) as (features, batch), at the speed of a copy.
at::Tensor turned(const at::Tensor& rows) {
  const int64_t batch = rows.size(0), features = rows.size(1);
  if (batch == 1 || features == 1) return rows.reshape({features, batch});
  return planes_cuda(rows.reshape({1, batch * features}), 1, features).view({features, batch});
}

// Whether batch_last is the faster way, whose operands have to be turned for that: on an H200, with 25,088 rows of
// float16, it takes 0.65 to 0.73 of the time of batched products for two of them, and 1.07 to 1.45 times as long for
// eight and more; with d = 1 batched products copy nothing, and took 0.28 to 1.18 of its time. In float32 parts of the
// batch are summed, which batch_last lends itself to, where tiles are few for a GPU.
bool turning_pays(const at::Tensor& x, int64_t a, int64_t b, int64_t c, int64_t d) {
  if (x.element_size() != 4) return d != 1 && a * d < 8;
  return a * d > 1 && a * d * ((b + 127) / 128) * ((c + 127) / 128) <= wave_of_tiles;
}

// One pass over X and ∂Y in so many parts of the batch; where that is -1, as many as the cost model picks, if it picks
// this way, and with 0 none.
std::optional<at::Tensor> weight_gradient_in_one_pass(const at::Tensor& x, const at::Tensor& y, int64_t a, int64_t d,
                                                      int64_t wanted) {
  const bool has_kernels = x.element_size() == 2 || x.scalar_type() == at::kFloat;
  if (wanted == 0 || (wanted < 0 && !has_kernels)) return std::nullopt;
  const ksmm::WeightGradient of = describe_gradient(x, y, true, a, d);
  const int64_t parts = ksmm::weight_gradient_first_parts(of, wanted);
  TORCH_CHECK_VALUE(wanted < 0 || parts > 0, "weight_gradient_first: no kernel takes ", x.scalar_type(), " x of shape ",
                    x.sizes(), " and strides ", x.strides(), " with d = ", d,
                    " in one pass; leave the choice to the cost model with parts = -1");
  if (parts == 0) return std::nullopt;
  const at::Tensor gradient = at::empty({a, of.b, of.c, d}, x.options());
  Scratch scratch{x.options().dtype(at::kByte), {}};
  C10_CUDA_CHECK(static_cast<cudaError_t>(
      ksmm::weight_gradient_first_cuda(of, parts, gradient.mutable_data_ptr(), {Scratch::allocate, &scratch},
                                       c10::cuda::getCurrentCUDAStream(x.device().index()).stream())));
  return gradient;
}

at::Tensor weight_gradient_first_cuda(const at::Tensor& x, const at::Tensor& y, int64_t a, int64_t d, int64_t parts) {
  check_gradient_first(x, y, a, d, parts);
  if (x.numel() == 0 || y.numel() == 0) return weight_gradient_of_planes(x, y, a, d, planes_permuted);
  const c10::cuda::CUDAGuard guard(x.device());
  if (std::optional<at::Tensor> gradient =
          weight_gradient_in_one_pass(with_contiguous_rows(x), with_contiguous_rows(y), a, d, parts))
    return *gradient;
  if (turning_pays(x, a, y.size(1) / (a * d), x.size(1) / (a * d), d))
    return weight_gradient_cuda(turned(x), turned(y), a, d).permute({0, 2, 3, 1}).contiguous();
  return weight_gradient_of_planes(x, y, a, d, planes_cuda);
}

// For each configuration that takes the problem its number and name, the cost model's choice first: of a weight that is
// kept (as keep() makes it) or not.
std::vector<std::string> configurations(const at::Tensor& x, const at::Tensor& weight, std::string_view layout,
                                        std::string_view precision, bool kept) {
  const ksmm::Problem problem = describe(x, weight, layout, precision);
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor y = at::empty({0}, x.options()), rows = with_contiguous_rows(x);  // Y itself is not touched
  const ksmm::Operands all = operands(rows, weight, nullptr, y);
  int chosen = -1;
  C10_CUDA_CHECK(static_cast<cudaError_t>(ksmm::choose_configuration(problem, all, kept, &chosen)));
  const auto entry = [](int number) { return std::to_string(number) + " " + ksmm::configuration_name(number); };
  std::vector<std::string> names = {entry(chosen)};
  for (int number = 0; number < ksmm::configuration_count(); ++number)
    if (number != chosen && ksmm::configuration_takes(number, problem, all)) names.push_back(entry(number));
  return names;
}

}  // namespace

TORCH_LIBRARY_IMPL(ksmm, CUDA, library) {
  library.impl("ks_matmul", ks_matmul_cuda);
  library.impl("ks_matmul_kept", ks_matmul_kept_cuda);
  library.impl("keep", keep_cuda);
  library.impl("ks_chain", ks_chain_cuda);
  library.impl("planes", planes_cuda);
  library.impl("weight_gradient", weight_gradient_cuda);
  library.impl("weight_gradient_first", weight_gradient_first_cuda);
  library.impl("configurations", configurations);
}
#endif
