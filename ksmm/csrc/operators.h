// What the operators do alike on every device: they check tensors and describe them to multiply_cpu or multiply_cuda.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "ks_matmul.h"

namespace ksmm::operators {

using Bias = std::optional<at::Tensor>;

ksmm::Dtype parse_dtype(at::ScalarType dtype);
// The product that the tensors ask for; the bias is checked on its own.
ksmm::Problem describe(const at::Tensor& x, const at::Tensor& weight, std::string_view layout_name,
                       std::string_view precision);
void check_bias(const ksmm::Problem& problem, const at::Tensor& x, const Bias& bias);

at::Tensor empty_output(const ksmm::Problem& problem, const at::Tensor& x);
at::Tensor with_contiguous_rows(const at::Tensor& x);
// They point into the tensors, whose rows are contiguous.
ksmm::Operands operands(const at::Tensor& x, const at::Tensor& weight, const at::Tensor* bias, const at::Tensor& y);

void check_launches(int64_t launches);
void check_chain(const at::Tensor& x, const at::Tensor& outer, const at::Tensor& inner, int64_t launches);

// (batch, a·b·d) as (batch, a, d, b): neighbours in b, which belong to one product, become neighbours in memory. A copy
// also where b or d is 1 and nothing moves: operators that may return their argument have another schema.
void check_planes(const at::Tensor& x, int64_t a, int64_t d);
at::Tensor planes_permuted(const at::Tensor& x, int64_t a, int64_t d);

// Operands in batch_first, or in batch_last: X of a·c·d features and ∂Y of a·b·d.
void check_gradient(const at::Tensor& x, const at::Tensor& y, bool first, int64_t a, int64_t d);
void check_gradient_first(const at::Tensor& x, const at::Tensor& y, int64_t a, int64_t d, int64_t parts);
// Σ_n ∂Y[i, r, j, n] X[i, k, j, n], of shape (a, d, b, c), by batched products. The matrices of all i, or of all j, are
// at equal distances and need no copy; where that would take more calls, all are copied.
constexpr int64_t most_batched_calls = 16;
at::Tensor weight_gradient_batched(const at::Tensor& x, const at::Tensor& y, const c10::SymInt& a,
                                   const c10::SymInt& d);
// The same of ∂Y[n, i, r, j] and X[n, i, k, j], of shape (a, b, c, d), by batched products of planes, which `planes`
// makes.
using Planes = at::Tensor (*)(const at::Tensor& x, int64_t a, int64_t d);
at::Tensor weight_gradient_of_planes(const at::Tensor& x, const at::Tensor& y, int64_t a, int64_t d, Planes planes);
// A tile of 128 x 128 for each multiprocessor of an H200, on which the rules for weight gradients were measured.
constexpr int64_t wave_of_tiles = 132;
// The same as sums of so many parts of the batch, for products that are too few for a GPU. With a = 1 nothing is copied
// but what the parts do not divide.
at::Tensor weight_gradient_in_parts(const at::Tensor& x, const at::Tensor& y, int64_t a, int64_t d, int64_t parts);

}  // namespace ksmm::operators
