"""ksmm::weight_gradient and ksmm::weight_gradient_first, and the gradients of weights that are made of them."""

from __future__ import annotations

import pytest
import torch

import ksmm
from ksmm.reference import relative_error
from tests.conftest import TOLERANCES

pytestmark = pytest.mark.usefixtures("kernel_library")

PATTERNS = [(1, 64, 48, 2), (3, 40, 64, 1), (2, 128, 72, 4), (1, 16, 16, 12), (2, 9, 7, 3), (1, 300, 264, 1)]


# One for each number of planes that one pass takes, ragged in every direction; others, which it does not take, last.
PATTERNS_FIRST = [
    *[(1, 140, 68, 2), (2, 64, 64, 2), (3, 48, 40, 4), (2, 130, 66, 4), (2, 72, 65, 8), (1, 64, 200, 8)],
    *[(2, 64, 33, 16), (1, 100, 48, 16), (2, 70, 40, 24), (1, 64, 48, 48), (1, 9, 7, 128), (1, 16, 16, 12)],
    *[(2, 9, 7, 3), (1, 7, 9, 4), (3, 40, 64, 1), (1, 5, 4, 2), (1, 1, 8, 1)],
]


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


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("batch", [1, 8, 77, 1000, 4099])
@pytest.mark.parametrize("pattern", PATTERNS_FIRST)
def test_of_batch_first_against_float64(pattern: tuple[int, ...], batch: int, dtype: torch.dtype, device: str) -> None:
    x, y, expected = operands(pattern, batch, dtype, device)
    found = torch.ops.ksmm.weight_gradient_first(x.T.contiguous(), y.T.contiguous(), pattern[0], pattern[3])
    assert found.is_contiguous() and found.dtype == dtype
    adding = max(1.0, batch / 1000) ** 0.5 if dtype == torch.float32 else 1.0
    assert relative_error(found, expected) < TOLERANCES[dtype] * adding


@pytest.mark.parametrize("pattern", [(1, 64, 48, 2), (2, 9, 7, 3), (3, 40, 64, 1), (1, 64, 48, 16)])
def test_float64_for_which_there_is_no_kernel(pattern: tuple[int, ...], device: str) -> None:
    x, y, expected = operands(pattern, 77, torch.float64, device)
    for parts in (-1, 0):
        found = torch.ops.ksmm.weight_gradient_first(x.T.contiguous(), y.T.contiguous(), pattern[0], pattern[3], parts)
        torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.ops.ksmm.weight_gradient(x, y, pattern[0], pattern[3]).permute(0, 2, 3, 1), expected
    )


@pytest.mark.parametrize("pattern", [(1, 64, 48, 2), (2, 64, 33, 16), (1, 64, 48, 48)])
@pytest.mark.parametrize(("padding", "offset"), [(8, 0), (8, 8), (3, 0), (0, 1)])
def test_of_views_of_rows(pattern: tuple[int, ...], padding: int, offset: int, device: str) -> None:
    x, y, expected = operands(pattern, 300, torch.float16, device)

    def view(rows: torch.Tensor) -> torch.Tensor:
        """(batch, features), in rows that are longer, of a storage that begins earlier; NaN around it."""
        features, batch = rows.shape
        storage = torch.full((batch * (features + padding) + offset,), torch.nan, dtype=rows.dtype, device=device)
        part = storage[offset:].view(batch, features + padding)[:, :features]
        return part.copy_(rows.T)

    found = torch.ops.ksmm.weight_gradient_first(view(x), view(y), pattern[0], pattern[3])
    assert relative_error(found, expected) < TOLERANCES[torch.float16]


@pytest.mark.parametrize("pattern", [(1, 64, 48, 2), (2, 48, 40, 4), (2, 72, 65, 8), (2, 64, 33, 16), (1, 64, 48, 48)])
def test_runs_of_batch_first_give_the_same_bits(pattern: tuple[int, ...], device: str) -> None:
    x, y, _ = operands(pattern, 4099, torch.float16, device)
    x, y = x.T.contiguous(), y.T.contiguous()
    first, second = (torch.ops.ksmm.weight_gradient_first(x, y, pattern[0], pattern[3]) for _ in range(2))
    assert torch.equal(first, second)


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


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("pattern", [(2, 8, 16, 3), (1, 64, 16, 1), (2, 16, 8, 16)])
@pytest.mark.parametrize("batch", [1, 64, 0])
def test_opcheck_of_batch_first(batch: int, pattern: tuple[int, ...], dtype: torch.dtype, device: str) -> None:
    x, y, _ = operands(pattern, batch, dtype, device)
    arguments = (x.T.contiguous(), y.T.contiguous(), pattern[0], pattern[3])
    torch.library.opcheck(torch.ops.ksmm.weight_gradient_first.default, arguments)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(("rows_of_x", "rows_of_y"), [(0, 6), (6, 0), (0, 0)])
def test_of_no_features(rows_of_x: int, rows_of_y: int, dtype: torch.dtype, device: str) -> None:
    x, y = (torch.randn(rows, 64, device=device).to(dtype) for rows in (rows_of_x, rows_of_y))
    shape = (1, rows_of_y // 2, rows_of_x // 2, 2)
    assert torch.ops.ksmm.weight_gradient(x, y, 1, 2).permute(0, 2, 3, 1).shape == shape
    assert torch.ops.ksmm.weight_gradient_first(x.T, y.T, 1, 2).shape == shape


def test_more_planes_than_64_bits_count_are_named(device: str) -> None:
    x, y, _ = operands((2, 8, 16, 3), 64, torch.float32, device)
    with pytest.raises(ValueError, match=r"a·d = 4294967296·4294967296 divides"):
        torch.ops.ksmm.weight_gradient(x, y, 2**32, 2**32)
    with pytest.raises(ValueError, match=r"a·d = 4294967296·4294967296 divides"):
        torch.ops.ksmm.planes(x, 2**32, 2**32)


def test_shapes_that_do_not_fit_are_named(device: str) -> None:
    x, y, _ = operands((2, 8, 16, 3), 64, torch.float32, device)
    with pytest.raises(ValueError, match=r"x has shape \[96, 64\] and the gradient of y \[48, 64\].*5·3"):
        torch.ops.ksmm.weight_gradient(x, y, 5, 3)
    with pytest.raises(ValueError, match=r"the gradient of y \[48, 32\]"):
        torch.ops.ksmm.weight_gradient(x, y[:, :32], 2, 3)
    with pytest.raises(ValueError, match=r"weight_gradient_first: x has shape \[64, 96\].*y \[64, 48\].*5·3"):
        torch.ops.ksmm.weight_gradient_first(x.T, y.T, 5, 3)
    with pytest.raises(ValueError, match=r"the gradient of y \[32, 48\]"):
        torch.ops.ksmm.weight_gradient_first(x.T, y[:, :32].T, 2, 3)
    with pytest.raises(ValueError, match=r"parts is -2; it is a number of parts .* or -1 for"):
        torch.ops.ksmm.weight_gradient_first(x.T, y.T, 2, 3, -2)
