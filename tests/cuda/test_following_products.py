"""Products that are queued one after the other, each of what the one before wrote.

Kernels for Hopper begin while the one before them ends (ksmm/csrc/cuda/hopper/overlap.cuh), and some ask for X and W
then: neither may be what was there before.
"""

from __future__ import annotations

import pytest
import torch

from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, LAYOUTS, Problem
from tests.cuda.products import inputs, stored_as

pytestmark = pytest.mark.cuda

REPEATS = 3


def chain(operator, number: int, layout: str, x: torch.Tensor, weight: torch.Tensor, waits: bool) -> torch.Tensor:
    """Three products, of which the second multiplies by the first numbers that the first one made."""
    a, b, c, d = weight.shape

    def product(factor: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        y = operator(rows, factor, layout, None, "default", number)
        if waits:
            torch.cuda.synchronize()
        return y

    first = product(weight, x)
    made = first.flatten()[: weight.numel()].view(a, d, b, c).permute(0, 2, 3, 1)
    return product(weight, product(made, first))


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
# of 32 MiB and more in 16 bits, below which nothing is asked for ahead, and less
@pytest.mark.parametrize(
    ("entries", "batch"),
    [
        ((1, 64, 64, 1), 140_000),
        ((2, 64, 64, 4), 17_000),
        ((1, 256, 256, 2), 17_000),
        ((2, 96, 96, 16), 3_000),
        ((2, 64, 64, 4), 5_000),
    ],
    ids=str,
)
def test_products_read_what_the_one_before_wrote(
    operator, layout: str, dtype: torch.dtype, entries: tuple[int, int, int, int], batch: int
) -> None:
    problem = Problem(Pattern(*entries), batch, dtype, layout, "cuda")
    x, weight = inputs(problem)
    others = [inputs(problem) for _ in range(REPEATS)]
    stored = stored_as(weight, "packed")
    for entry in torch.ops.ksmm.configurations(x, stored, layout):
        number, name = entry.split(" ", 1)
        expected = chain(operator, int(number), layout, x, stored, waits=True)
        assert expected.isfinite().all(), name
        for other_x, other_weight in others:
            # in the same memory, as PyTorch hands out again what is given back
            chain(operator, int(number), layout, other_x, stored_as(other_weight, "packed"), waits=False)
            assert torch.equal(chain(operator, int(number), layout, x, stored, waits=False), expected), name
