"""The operands of a product: what fits together, what autocast makes of them, X as a matrix and back."""

from __future__ import annotations

import math

import torch
from torch.autograd import forward_ad

from ksmm.names import dtype_name
from ksmm.patterns import Pattern
from ksmm.problem import DTYPES
from ksmm.reference import pattern_of

OPERAND_DTYPES = (*DTYPES.values(), torch.float64)
"""What is multiplied: the kernel takes all but float64."""

_STRIDED = torch.strided  # a name in torch takes as long to find as the layout of x


def is_plain(x: torch.Tensor) -> bool:
    """Whether x has a stride in each dimension: it is neither nested nor sparse, nor in a library's own format."""
    return x.layout is _STRIDED and not x.is_nested


def _check_plain(x: torch.Tensor) -> None:
    if x.is_nested:
        raise ValueError("x is nested; a strided tensor is needed: pad it with torch.nested.to_padded_tensor")
    if not is_plain(x):
        raise ValueError(f"x has layout {x.layout}; a strided tensor is needed: .to_dense() makes one")


def check_shapes(x: torch.Tensor, weight: torch.Tensor, layout: str) -> Pattern:
    """The pattern of a weight; a ValueError if x is not as wide, or on another device."""
    pattern = pattern_of(weight)
    _check_plain(x)
    position = -1 if layout == "batch_first" else 0
    wanted = f"(..., {pattern.columns})" if layout == "batch_first" else f"({pattern.columns}, ...)"
    if x.dim() == 0 or x.shape[position] != pattern.columns:
        raise ValueError(
            f"x has shape {tuple(x.shape)}; pattern {pattern} in {layout} takes {wanted}, as a·c·d = {pattern.columns}"
        )
    if x.device != weight.device:
        raise ValueError(f"x is on {x.device} and weight on {weight.device}; move one of them with .to()")
    return pattern


def check_dtypes(x: torch.Tensor, weight: torch.Tensor) -> None:
    """A ValueError if x is in another dtype than the weight."""
    if x.dtype != weight.dtype:
        raise ValueError(
            f"x has dtype {dtype_name(x.dtype)} and weight {dtype_name(weight.dtype)}; convert one of them with .to()"
        )


def check_bias(x: torch.Tensor, bias: torch.Tensor | None, pattern: Pattern) -> None:
    """A ValueError if there is a bias of another shape than (a·b·d,), or of another dtype or device than x."""
    if bias is None:
        return
    if bias.shape != (pattern.rows,):
        raise ValueError(f"bias has shape {tuple(bias.shape)}; pattern {pattern} takes ({pattern.rows},), a·b·d")
    if bias.dtype != x.dtype or bias.device != x.device:
        raise ValueError(
            f"bias is {dtype_name(bias.dtype)} on {bias.device} and x {dtype_name(x.dtype)} on {x.device}; "
            "convert one of them with .to()"
        )


def along_features(bias: torch.Tensor, layout: str) -> torch.Tensor:
    """A bias of shape (features,) as it is added to a Y of some batch: a row in batch_first, a column in batch_last."""
    return bias if layout == "batch_first" else bias[:, None]


def autocast_operands(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """The operands as autocast would hand them to nn.Linear: those in a floating-point dtype in the autocast dtype.

    All but float64, which PyTorch casts nowhere; so what did not fit together before may not fit together here either.
    """
    device_type = x.device.type
    if not autocasts(device_type):
        return x, weight, bias
    dtype = torch.get_autocast_dtype(device_type)
    return _autocast(x, dtype), _autocast(weight, dtype), None if bias is None else _autocast(bias, dtype)


def _autocast(operand: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return operand.to(dtype) if operand.is_floating_point() and operand.dtype != torch.float64 else operand


def autocasts(device_type: str) -> bool:
    """Whether autocast is enabled on a device; meta has none to ask for."""
    return device_type != "meta" and torch.is_autocast_enabled(device_type)


def is_transformed() -> bool:
    """Whether a transform of torch.func (grad, vmap, jvp, ...) or a dual_level looks at what is computed.

    These see through operations of PyTorch alone: an operator of our own has neither tangents nor batches of them.
    Asked of the mode and not of the operands: below a transform an operand does not show whether it has a tangent.
    """
    return forward_ad._current_level >= 0 or torch._C._are_functorch_transforms_active()


def is_empty(x: torch.Tensor) -> bool:
    """Whether x is known to have no elements.

    torch.compile and torch.export may not know, where the batch size is what the data make it (x[mask]): graphs take
    the way of other batches, which leads to an empty result, too.
    """
    return not torch.compiler.is_compiling() and x.numel() == 0


def flatten_batch(x: torch.Tensor, layout: str) -> torch.Tensor:
    """X as a matrix: (B, features) in batch_first, (features, B) in batch_last."""
    if x.dim() == 2:
        return x
    if layout == "batch_first":
        return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    return x.reshape(x.shape[0], math.prod(x.shape[1:]))


def restore_batch(y: torch.Tensor, x: torch.Tensor, layout: str) -> torch.Tensor:
    """Y with the batch dimensions that x had."""
    if x.dim() == 2:
        return y
    if layout == "batch_first":
        return y.reshape(*x.shape[:-1], y.shape[-1])
    return y.reshape(y.shape[0], *x.shape[1:])
