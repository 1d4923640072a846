"""Tiles of planes whose blocks share X, or X and W, or whose W is prepared or Y buffered: whole ones, and parts."""

from __future__ import annotations

import pytest
import torch

from ksmm.patterns import Pattern
from ksmm.problem import Problem
from tests.cuda.products import assert_close, inputs, number_of, stored_as, tolerance
from tests.shapes import bias_of, expected, poison

pytestmark = pytest.mark.cuda

OF_ALL_PLANES = (
    *("planes j16 r32 k16 pair", "planes j16 r32 k32 pair", "planes j16 r24 k16 pair"),
    *("planes j16 r32 k16 prepared", "planes j16 r32 k16 pair prepared", "planes j16 r24 k16 pair prepared"),
)
OF_SECTORS = (
    *("planes sector r32 k16 pair", "planes sector r32 k32 pair", "planes sector r24 k16 quad"),
    *("planes sector r32 k16 pair prepared", "planes sector r24 k16 quad prepared"),
)
OF_SEVERAL_TILES = (
    *(("planes j2 r128 k32 buffered", 2), ("planes j2 r192 k32 buffered", 2)),
    *(("planes j3 r64 k32 buffered", 3), ("planes j3 r128 k32 buffered", 3)),
    *(("planes j4 r64 k32 buffered", 4), ("planes j8 r40 k16 prepared", 8), ("planes j12 r48 k16 prepared", 12)),
)

if torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("the copy engine is that of compute capability 9.0", allow_module_level=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("name", "planes"), [(name, (16,)) for name in OF_ALL_PLANES] + [(name, (24, 40)) for name in OF_SECTORS]
)
# b within the first block of a cluster, in both, and in the first of the next; c of one step, and of several
@pytest.mark.parametrize(("b", "c"), [(20, 16), (48, 40), (64, 136), (72, 8), (200, 72)])
@pytest.mark.parametrize("batch", [1, 65, 300, 5_000])
def test_blocks_that_share(
    operator, name: str, planes: tuple[int, ...], dtype: torch.dtype, b: int, c: int, batch: int
) -> None:
    for d in planes:
        assert_twice_right(operator, name, Problem(Pattern(2, b, c, d), batch, dtype, "batch_first", "cuda"))


# b of less than a tile, and of several; more tiles than there are multiprocessors, so that one follows another
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("name", "d"), OF_SEVERAL_TILES)
@pytest.mark.parametrize(("b", "c"), [(24, 16), (200, 72), (264, 8)])
@pytest.mark.parametrize("batch", [1, 129, 10_001])
def test_tiles_that_follow_each_other(
    operator, name: str, d: int, dtype: torch.dtype, b: int, c: int, batch: int
) -> None:
    assert_twice_right(operator, name, Problem(Pattern(3, b, c, d), batch, dtype, "batch_first", "cuda"))


def assert_twice_right(operator, name: str, problem: Problem) -> None:
    """Two runs of that configuration over poisoned memory are close to float64, and the same bit by bit."""
    x, weight = inputs(problem)
    stored, bias = stored_as(weight, "packed"), bias_of(problem, True)
    number, results = number_of(name, x, stored, problem.layout), []
    for _ in range(2):
        poison(problem)
        results.append(operator(x, stored, problem.layout, bias, "default", number))
    reference = expected(x, weight, problem.layout, bias)
    assert_close(results[0], reference, tolerance(problem.dtype, problem.pattern))
    assert torch.equal(*results)
