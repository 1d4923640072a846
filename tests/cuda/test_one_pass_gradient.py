"""Gradients of weights in batch_first by one pass over X and the gradient of Y: every tile."""

from __future__ import annotations

import pytest
import torch

from ksmm.reference import relative_error
from tests.conftest import TOLERANCES

pytestmark = pytest.mark.cuda

DTYPES = (torch.float16, torch.bfloat16)
PATTERNS = [  # tiles of 2, 4, 8, 16, and 16 and 32 of more planes, ragged, and several of them
    *[(1, 8, 8, 2), (2, 140, 68, 2), (1, 300, 264, 2), (2, 48, 40, 4), (1, 270, 66, 4), (1, 130, 140, 4)],
    *[(2, 72, 65, 8), (1, 64, 200, 8), (1, 131, 9, 8), (2, 64, 33, 16), (1, 130, 70, 16), (3, 48, 48, 16)],
    *[(2, 70, 40, 24), (1, 64, 48, 48), (1, 9, 7, 128), (2, 65, 33, 32), (1, 40, 70, 64), (1, 33, 40, 96)],
]


@pytest.fixture(autouse=True)
def _on_hopper(operator) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("one pass needs compute capability 9.0")


def operands(pattern: tuple[int, ...], batch: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """X and the gradient of Y in batch_first."""
    a, b, c, d = pattern
    x, y = (torch.randn(batch, a * size * d, device="cuda").to(dtype) for size in (c, b))
    return x, y


def expected(x: torch.Tensor, y: torch.Tensor, pattern: tuple[int, ...]) -> torch.Tensor:
    """The gradient of the weight in float64, of shape (a, b, c, d)."""
    a, b, c, d = pattern
    batch = x.shape[0]
    return torch.einsum("nirj,nikj->irkj", y.double().view(batch, a, b, d), x.double().view(batch, a, c, d))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("batch", "parts"), [(1, 1), (8, 3), (77, 1), (300, 4), (1003, 2), (4099, 31)])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_tile(pattern: tuple[int, ...], batch: int, parts: int, dtype: torch.dtype) -> None:
    x, y = operands(pattern, batch, dtype)
    # what was in memory is not added: the parts' sums and the gradient come from blocks that held NaN
    poison = [torch.full((1 << 22,), torch.nan, device="cuda") for _ in range(2)]
    del poison
    found = torch.ops.ksmm.weight_gradient_first(x, y, pattern[0], pattern[3], parts)
    assert relative_error(found, expected(x, y, pattern)) < TOLERANCES[dtype]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_infinities_and_nan_stay_in_their_products(pattern: tuple[int, ...]) -> None:
    x, y = operands(pattern, 200, torch.float16)
    x[3, 0], x[150, -1], y[7, 1] = torch.inf, torch.nan, -torch.inf
    found = torch.ops.ksmm.weight_gradient_first(x, y, pattern[0], pattern[3], 2)
    reference = expected(x, y, pattern)
    assert torch.equal(found.isnan(), reference.isnan())
    assert torch.equal(found.isinf(), reference.isinf())
    finite = reference.isfinite()
    assert relative_error(found[finite], reference[finite]) < TOLERANCES[torch.float16]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_same_bits_each_time_and_from_a_graph(pattern: tuple[int, ...]) -> None:
    x, y = operands(pattern, 2000, torch.bfloat16)
    arguments = (x, y, pattern[0], pattern[3], 5)
    first = torch.ops.ksmm.weight_gradient_first(*arguments)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        replayed = torch.ops.ksmm.weight_gradient_first(*arguments)
    for _ in range(3):
        replayed.fill_(torch.nan)
        graph.replay()
        assert torch.equal(replayed, first)


@pytest.mark.parametrize("pattern", [(2, 9, 7, 3), (1, 8, 5, 4), (1, 64, 48, 20), (2, 64, 64, 1)])
def test_what_no_kernel_takes_is_named(pattern: tuple[int, ...]) -> None:
    x, y = operands(pattern, 100, torch.float16)
    with pytest.raises(ValueError, match=rf"no kernel takes Half x of shape .* with d = {pattern[3]} in one pass"):
        torch.ops.ksmm.weight_gradient_first(x, y, pattern[0], pattern[3], 1)
    found = torch.ops.ksmm.weight_gradient_first(x, y, pattern[0], pattern[3])
    assert relative_error(found, expected(x, y, pattern)) < TOLERANCES[torch.float16]


@pytest.mark.parametrize("pattern", [(2, 64, 48, 16), (1, 64, 48, 2)])
def test_without_it(pattern: tuple[int, ...]) -> None:
    x, y = operands(pattern, 300, torch.float16)
    found = torch.ops.ksmm.weight_gradient_first(x, y, pattern[0], pattern[3], 0)
    assert found.is_contiguous()
    assert relative_error(found, expected(x, y, pattern)) < TOLERANCES[torch.float16]
