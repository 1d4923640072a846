// What the operators do alike on every device: they check tensors and describe them to multiply_cpu or multiply_cuda.
#pragma once

#include <ATen/core/Tensor.h>

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

void check_chain(const at::Tensor& x, const at::Tensor& outer, const at::Tensor& inner, int64_t launches);

// (batch, a·b·d) as (batch, a, d, b): neighbours in b, which belong to one product, become neighbours in memory. A copy
// also where b or d is 1 and nothing moves: operators that may return their argument have another schema.
void check_planes(const at::Tensor& x, int64_t a, int64_t d);
at::Tensor planes_permuted(const at::Tensor& x, int64_t a, int64_t d);

// Operands in batch_last: X has a·c·d rows, ∂Y a·b·d.
void check_gradient(const at::Tensor& x, const at::Tensor& y, int64_t a, int64_t d);
// Of shape (a, d, b, c), by batched products; where a or d is 1 nothing is copied for them.
at::Tensor weight_gradient_batched(const at::Tensor& x, const at::Tensor& y, int64_t a, int64_t d);

}  // namespace ksmm::operators
