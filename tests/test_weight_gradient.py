"""ksmm::weight_gradient, and the gradients of weights that are made of it."""

from __future__ import annotations

import pytest
import torch

import ksmm
from ksmm.reference import relative_error
from tests.conftest import TOLERANCES

pytestmark = pytest.mark.usefixtures("kernel_library")

PATTERNS = [(1, 64, 48, 2), (3, 40, 64, 1), (2, 128, 72, 4), (1, 16, 16, 12), (2, 9, 7, 3), (1, 300, 264, 1)]


def operands(
    pattern: tuple[int, ...], batch: int, dtype: torch.dtype, device: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """X and the gradient of Y in batch_last, and the gradient of the weight in float64, of shape (a, b, c, d)."""
    a, b, c, d = pattern
    x, y = (torch.randn(a * size * d, batch, device=device).to(dtype) for size in (c, b))
    of_y, of_x = y.double().view(a, b, d, batch), x.double().view(a, c, d, batch)
    return x, y, torch.einsum("irjn,ikjn->irkj", of_y, of_x)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("batch", [1, 8, 77, 1000, 4096, 4099])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_against_float64(pattern: tuple[int, ...], batch: int, dtype: torch.dtype, device: str) -> None:
    x, y, expected = operands(pattern, batch, dtype, device)
    found = torch.ops.ksmm.weight_gradient(x, y, pattern[0], pattern[3])
    assert found.is_contiguous() and found.dtype == dtype
    # errors of adding in float32 are far below the rounding of a result of 16 bits, and all there is in float32
    adding = max(1.0, batch / 1000) ** 0.5 if dtype == torch.float32 else 1.0
    assert relative_error(found.permute(0, 2, 3, 1), expected) < TOLERANCES[dtype] * adding


@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_gradient_of_the_weight_in_16_bits(pattern: tuple[int, ...], layout: str, device: str) -> None:
    x, y, expected = operands(pattern, 200, torch.float16, device)
    weight = torch.randn(pattern, device=device).half().requires_grad_()
    of = (x.T.contiguous(), y.T.contiguous()) if layout == "batch_first" else (x, y)
    product = ksmm.ks_matmul(of[0], weight, layout, "kernel")
    (found,) = torch.autograd.grad(product, weight, of[1])
    assert relative_error(found, expected) < TOLERANCES[torch.float16]


@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
@pytest.mark.parametrize("pattern", [(2, 9, 7, 3), (1, 1, 1, 1), (1, 8, 1, 1)])
@pytest.mark.parametrize("batch", [1, 5])
def test_the_gradient_of_the_weight_where_rows_are_columns_already(
    batch: int, pattern: tuple[int, ...], layout: str, device: str
) -> None:
    x, y, expected = operands(pattern, batch, torch.float16, device)
    weight = torch.randn(pattern, device=device).half().requires_grad_()
    of = (x.T.contiguous(), y.T.contiguous()) if layout == "batch_first" else (x, y)
    (found,) = torch.autograd.grad(ksmm.ks_matmul(of[0], weight, layout, "kernel"), weight, of[1])
    assert relative_error(found, expected) < TOLERANCES[torch.float16]


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("pattern", [(2, 8, 16, 3), (1, 64, 16, 1), (1, 1, 1, 8)])
@pytest.mark.parametrize("batch", [1, 64, 0])
def test_opcheck(batch: int, pattern: tuple[int, ...], dtype: torch.dtype, device: str) -> None:
    x, y, _ = operands(pattern, batch, dtype, device)
    torch.library.opcheck(torch.ops.ksmm.weight_gradient.default, (x, y, pattern[0], pattern[3]))


def test_shapes_that_do_not_fit_are_named(device: str) -> None:
    x, y, _ = operands((2, 8, 16, 3), 64, torch.float32, device)
    with pytest.raises(ValueError, match=r"x has shape \[96, 64\] and the gradient of y \[48, 64\].*5·3"):
        torch.ops.ksmm.weight_gradient(x, y, 5, 3)
    with pytest.raises(ValueError, match=r"the gradient of y \[48, 32\]"):
        torch.ops.ksmm.weight_gradient(x, y[:, :32], 2, 3)
