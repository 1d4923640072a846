"""float32 operands that are hard to multiply as sums of shorter numbers, and how much a product of them errs."""

from __future__ import annotations

import math

import torch

from ksmm import Pattern
from ksmm.problem import Problem
from ksmm.reference import reference_matmul
from tests.cuda.products import inputs

KINDS = (
    "well scaled",
    "badly scaled",
    "badly scaled X",
    "badly scaled W",
    "cancelling",
    "rows of X apart",
    "rows of W apart",
    "few large",
    "many zeros",
    "one small weight",
    "next to nothing W",
)


def badly_scaled(tensor: torch.Tensor, powers: float = 15) -> torch.Tensor:
    """Magnitudes spread over so many powers of ten to either side."""
    return tensor * torch.empty_like(tensor).uniform_(-powers, powers).mul_(math.log(10)).exp_()


def cancelling(x: torch.Tensor, pattern: Pattern, layout: str) -> torch.Tensor:
    """X whose second half of each sum nearly takes the first one away, if the weight's halves are equal."""
    shape = (-1, pattern.a, pattern.c, pattern.d) if layout == "batch_first" else (pattern.a, pattern.c, pattern.d, -1)
    parts = x.view(shape)
    dim, half = (2 if layout == "batch_first" else 1), pattern.c // 2
    first = parts.narrow(dim, 0, half)
    nearly = -first * (1 + 1e-3 * torch.randn_like(first))
    return torch.cat([first, nearly], dim).reshape(x.shape)


def with_one_badly_scaled_row(
    x: torch.Tensor, weight: torch.Tensor, r: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """X and the weight, both badly scaled, the weight in the row r of each i alone; and that row."""
    row = badly_scaled(weight[:, r : r + 1])
    weight[:, r : r + 1] = row
    return badly_scaled(x), weight, row


def row_of(y: torch.Tensor, pattern: Pattern, r: int, layout: str) -> torch.Tensor:
    """The outputs of one r of each (i, j)."""
    if layout == "batch_first":
        return y.view(-1, pattern.a, pattern.b, pattern.d)[:, :, r].flatten(1)
    return y.view(pattern.a, pattern.b, pattern.d, -1)[:, r].flatten(0, 1)


def error(y: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, layout: str) -> float:
    """Root mean square over all outputs, each relative to its Σ|x||w|."""
    assert y.isfinite().all()
    scale = reference_matmul(weight.abs(), x.abs(), layout)
    return ((y.double() - reference_matmul(weight, x, layout)) / scale).square().mean().sqrt().item()


def of_kind(
    kind: str, pattern: Pattern, layout: str, batch_size: int, device_type: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """X and a weight, some of which are hard to multiply as sums of shorter numbers."""
    x, weight = inputs(Problem(pattern, batch_size, torch.float32, layout, device_type))
    if kind == "badly scaled":
        return badly_scaled(x), badly_scaled(weight)
    if kind == "badly scaled X":
        return badly_scaled(x), weight
    if kind == "badly scaled W":
        return x, badly_scaled(weight)
    if kind == "cancelling":
        half = weight[:, :, : pattern.c // 2]
        return cancelling(x, pattern, layout), torch.cat([half, half], 2).contiguous()
    if kind == "rows of X apart":
        scales = badly_scaled(torch.ones(batch_size, device=device_type))
        return x * (scales[:, None] if layout == "batch_first" else scales), weight
    if kind == "rows of W apart":
        return x, weight * badly_scaled(torch.ones_like(weight[:, :, :1]))
    if kind == "few large":
        return torch.where(torch.rand_like(x) < 1 / 16, x, 1e-9 * x), weight
    if kind == "many zeros":
        return x, torch.where(torch.rand_like(weight) < 0.3, 0, weight)
    if kind == "next to nothing W":  # whose third of three bfloat16 parts would be below them
        return x * 2.0**60, weight * 2.0**-116
    if kind == "one small weight":
        weight[0, pattern.b // 2, pattern.c // 3, pattern.d // 2] = 1e-12
    return x, weight
