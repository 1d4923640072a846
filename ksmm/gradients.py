"""What the operators x, weight, layout, … -> y have in common: the fake product and the gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def weight_gradient(
    x: torch.Tensor, y_gradient: torch.Tensor, layout: str, weight_shape: tuple[int, int, int, int]
) -> torch.Tensor:
    """Σ_n ∂Y[n, i, r, j] X[n, i, k, j], as batched matrix products.

    Args:
        x: shape (B, a·c·d) or (a·c·d, B).
        y_gradient: shape (B, a·b·d) or (a·b·d, B).
        layout: of x and y_gradient.
        weight_shape: (a, b, c, d).

    Returns:
        Shape (a, b, c, d).
    """
    a, b, c, d = weight_shape
    if layout == "batch_first":
        n = x.shape[0]
        of_y, of_x = y_gradient.reshape(n, a, b, d).permute(1, 3, 2, 0), x.reshape(n, a, c, d).permute(1, 3, 0, 2)
    else:
        n = x.shape[1]
        of_y, of_x = y_gradient.reshape(a, b, d, n).permute(0, 2, 1, 3), x.reshape(a, c, d, n).permute(0, 2, 3, 1)
    # not einsum, which gradients of several outputs at a time (is_grads_batched) know nothing of
    planes = torch.matmul(of_y, of_x)
    # with d = 1 contiguous, with the strides of a weight that is: Implementation.pack_once says who compares them
    return planes.select(1, 0).unsqueeze(-1) if d == 1 else planes.permute(0, 2, 3, 1)


def fake_product(x: torch.Tensor, weight: torch.Tensor, layout: str, *_: object) -> torch.Tensor:
    """An empty Y of the right shape, dtype and device; what torch.compile traces instead of the operator."""
    a, b, _c, d = weight.shape
    rows = a * b * d
    return x.new_empty((x.shape[0], rows) if layout == "batch_first" else (rows, x.shape[1]))


def fake_chain(x: torch.Tensor, outer: torch.Tensor, *_: object) -> torch.Tensor:
    """As fake_product, for two factors in batch_first."""
    return fake_product(x, outer, "batch_first")


def fake_planes(x: torch.Tensor, a: int, d: int) -> torch.Tensor:
    """What ksmm::planes returns of x of shape (batch, a·b·d): empty, of shape (batch, a, d, b)."""
    return x.new_empty((x.shape[0], a, d, x.shape[1] // (a * d)))


def fake_weight_gradient(x: torch.Tensor, y_gradient: torch.Tensor, a: int, d: int) -> torch.Tensor:
    """What ksmm::weight_gradient returns of x and a gradient in batch_last: empty, of shape (a, d, b, c)."""
    return x.new_empty((a, d, y_gradient.shape[0] // (a * d), x.shape[0] // (a * d)))


def fake_weight_gradient_first(x: torch.Tensor, y_gradient: torch.Tensor, a: int, d: int, *_: int) -> torch.Tensor:
    """What ksmm::weight_gradient_first returns of x and a gradient in batch_first: empty, of shape (a, b, c, d)."""
    return x.new_empty((a, y_gradient.shape[1] // (a * d), x.shape[1] // (a * d), d))


def save_operands(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    """The operator's setup_context: x, weight and its other arguments, the layout first.

    Each of both is what the gradient of the other takes; nobody keeps X, or minds a change of it, for a frozen weight.
    """
    x, weight, *ctx.rest = inputs
    ctx.weight_shape = tuple(weight.shape)
    of_x, of_weight = ctx.needs_input_grad[:2]
    ctx.save_for_backward(x if of_weight else None, weight if of_x else None)


def gradients_with(multiply: Callable[..., torch.Tensor]) -> Callable[..., tuple]:
    """The operator's backward, in differentiable steps.

    Args:
        multiply: the product that the input gradient takes, called with the operator's arguments: Kᵀ is the factor
            with b and c exchanged.
    """

    def gradients(ctx: Any, y_gradient: torch.Tensor) -> tuple:
        x, weight = ctx.saved_tensors
        of_x = of_weight = None
        if ctx.needs_input_grad[0]:
            of_x = multiply(y_gradient, weight.transpose(1, 2), *ctx.rest)
        if ctx.needs_input_grad[1]:
            of_weight = weight_gradient(x, y_gradient, ctx.rest[0], ctx.weight_shape)
        return of_x, of_weight, *(None for _ in ctx.rest)

    return gradients
