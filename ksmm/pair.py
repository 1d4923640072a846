"""Two factors of a layer in one call, without packing them for more than that."""

from __future__ import annotations

import torch

from ksmm.functional import choice_of, choices
from ksmm.implementations import get_implementation
from ksmm.operands import autocasts, check_bias, flatten_batch, is_empty, is_plain, is_transformed, restore_batch
from ksmm.patterns import Pattern

_KERNEL = "kernel"


def multiply_pair(
    x: torch.Tensor, inner: torch.Tensor, outer: torch.Tensor, implementation: str, bias: torch.Tensor | None
) -> torch.Tensor | None:
    """Both products in batch_first by `Kernel.matmul_chain`; None where `ks_matmul` has to multiply one by one.

    That is where a gradient is recorded, in graphs and transforms, under autocast, in float32 and float64, which no
    kernel multiplies by two factors in one launch, where another implementation than the kernel is asked for or was
    measured to be faster, and for operands that do not fit, which ks_matmul has the messages for.

    Args:
        x: shape (..., a·c·d) of the inner factor.
        inner: weight of the factor that is applied first, shape (a, b, c, d).
        outer: weight of the other one.
        implementation: a name, or "auto".
        bias: shape (a·b·d,) of the outer factor, or None.

    Returns:
        Shape (..., a·b·d) of the outer factor, or None.
    """
    if not _is_plain_call(x, inner, outer, bias):
        return None
    patterns = Pattern(*inner.shape), Pattern(*outer.shape)
    if x.shape[-1] != patterns[0].columns or patterns[0].rows != patterns[1].columns:
        return None
    rows = flatten_batch(x, "batch_first")
    for pattern in patterns:
        ranges = choices(pattern.weight_shape, x.dtype, "batch_first", x.device.type, implementation, x.device.index)
        if choice_of(ranges, rows.shape[0]) != _KERNEL:
            return None
    check_bias(rows, bias, patterns[1])
    kernel = get_implementation(_KERNEL)
    packed = [kernel.pack_once(weight, "batch_first") for weight in (inner, outer)]
    return restore_batch(kernel.matmul_chain(*packed, rows, bias), x, "batch_first")


def _is_plain_call(x: torch.Tensor, inner: torch.Tensor, outer: torch.Tensor, bias: torch.Tensor | None) -> bool:
    if not isinstance(x, torch.Tensor) or x.dtype.itemsize != 2:
        return False
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or is_transformed() or autocasts(x.device.type):
        return False
    operands = [x, inner, outer] if bias is None else [x, inner, outer, bias]
    if any(type(operand) not in (torch.Tensor, torch.nn.Parameter) for operand in operands):
        return False
    if torch.is_grad_enabled() and any(operand.requires_grad for operand in operands):
        return False
    return (
        all(operand.dtype == x.dtype and operand.device == x.device for operand in operands)
        and x.device.type in ("cpu", "cuda")
        and inner.dim() == outer.dim() == 4
        and x.dim() > 0
        and is_plain(x)
        and not is_empty(x)
    )
