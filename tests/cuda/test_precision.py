"""float32 by default is no less exact than float32 multiply-adds, and TF32 is used where the user allows it."""

from __future__ import annotations

import math

import pytest
import torch

from ksmm import Pattern
from ksmm.problem import LAYOUTS, Problem
from ksmm.reference import reference_matmul
from tests.cuda.products import inputs

pytestmark = pytest.mark.cuda

PATTERNS = [(2, 64, 64, 4), (1, 192, 48, 2), (1, 96, 96, 8), (2, 48, 192, 1), (1, 64, 256, 16), (1, 128, 1024, 2)]

every_pattern = pytest.mark.parametrize("entries", PATTERNS, ids=str)
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def badly_scaled(tensor: torch.Tensor) -> torch.Tensor:
    """Magnitudes spread over 30 powers of ten."""
    return tensor * torch.empty_like(tensor).uniform_(-15, 15).mul_(math.log(10)).exp_()


def cancelling(x: torch.Tensor, pattern: Pattern, layout: str) -> torch.Tensor:
    """X whose second half of each sum nearly takes the first one away, if the weight's halves are equal."""
    shape = (-1, pattern.a, pattern.c, pattern.d) if layout == "batch_first" else (pattern.a, pattern.c, pattern.d, -1)
    parts = x.view(shape)
    dim, half = (2 if layout == "batch_first" else 1), pattern.c // 2
    first = parts.narrow(dim, 0, half)
    nearly = -first * (1 + 1e-3 * torch.randn_like(first))
    return torch.cat([first, nearly], dim).reshape(x.shape)


def errors(operator, x: torch.Tensor, weight: torch.Tensor, layout: str) -> dict[str, float]:
    """Error of each precision relative to Σ|x||w|, over all outputs."""
    reference = reference_matmul(weight, x, layout)
    scale = reference_matmul(weight.abs(), x.abs(), layout)
    found = {}
    for precision in ("default", "strict"):
        y = operator(x, weight, layout, None, precision)
        assert y.isfinite().all()
        found[precision] = ((y.double() - reference) / scale).square().mean().sqrt().item()
    return found


@every_pattern
@every_layout
@pytest.mark.parametrize("kind", ("well scaled", "badly scaled", "cancelling"))
def test_default_is_as_exact_as_strict(operator, layout: str, entries: tuple[int, ...], kind: str) -> None:
    pattern = Pattern(*entries)
    x, weight = inputs(Problem(pattern, 512, torch.float32, layout, "cuda"))
    if kind == "badly scaled":
        x, weight = badly_scaled(x), badly_scaled(weight)
    if kind == "cancelling":
        half = weight[:, :, : pattern.c // 2]
        weight = torch.cat([half, half], 2).contiguous()
        x = cancelling(x, pattern, layout)
    found = errors(operator, x, weight, layout)
    # where one product dominates the sum, both errors are that of one rounding: allow for its scatter
    allowed = found["strict"] * 1.05 + (2**-24 if kind == "badly scaled" else 0)
    assert found["default"] <= allowed, f"{found}"


@every_pattern
@every_layout
def test_tf32_where_the_user_allows_it(operator, layout: str, entries: tuple[int, ...]) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the kernel uses TF32 on compute capability 9.0 alone")
    x, weight = inputs(Problem(Pattern(*entries), 512, torch.float32, layout, "cuda"))
    reference = reference_matmul(weight, x, layout)
    torch.backends.cuda.matmul.allow_tf32 = True
    y = operator(x, weight, layout)
    error = (torch.linalg.vector_norm(y - reference) / torch.linalg.vector_norm(reference)).item()
    assert 1e-5 < error < 2e-3
