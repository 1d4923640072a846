"""The gemm kernels where tiles end: whole runs of 128 n and what is left, and sums that leave while others multiply.

Blocks with one tile each, too: as many stages of c as there may be, and tiles along r; and W spread over planes.
"""

from __future__ import annotations

import math

import pytest
import torch

from ksmm.patterns import Pattern
from ksmm.problem import Problem
from tests.cuda.products import assert_close, assert_close_where_finite, inputs, number_of, stored_as, tolerance
from tests.shapes import bias_of, expected, poison

pytestmark = pytest.mark.cuda

WIDE = tuple(f"gemm wide {columns}" for columns in (64, 96, 128, 192))
SINGLE = tuple(f"gemm single {tile}" for tile in ("r48 n128", "r64 n64", "r64 n128", "r96 n64", "r96 n128"))
SINGLE_OF_SEVERAL = ("gemm single r64 n64", "gemm single r64 n128", "gemm single r128 n64", "gemm single r192 n64")
SPREADING = ("gemm single r64 n64", "gemm single r64 n128", "gemm single r96 n128")  # for d > 1 in batch_first
RESIDENT = tuple(f"gemm resident {columns}" for columns in (128, 192))  # likewise
STAYING = (
    *(f"gemm streamed {columns}" for columns in (64, 96, 128, 256)),
    "gemm alternating 128",
    "gemm alternating 192",
)

if torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("the copy engine is that of compute capability 9.0", allow_module_level=True)


def check(operator, name: str, problem: Problem) -> None:
    """Runs a configuration twice on poisoned outputs, with a bias: right, and the same bits."""
    x, weight = inputs(problem)
    stored, bias = stored_as(weight, "packed"), bias_of(problem, True)
    number = number_of(name, x, stored, problem.layout)
    results = []
    for _ in range(2):
        poison(problem)
        results.append(operator(x, stored, problem.layout, bias, "default", number))
    assert_close(results[0], expected(x, weight, problem.layout, bias), tolerance(problem.dtype, problem.pattern))
    assert torch.equal(*results)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("entries", [(2, 72, 40, 3), (1, 200, 520, 2), (3, 33, 8, 1), (1, 392, 64, 16)], ids=str)
@pytest.mark.parametrize("batch", [8, 120, 128, 136, 384, 392, 5_000])
def test_runs_of_rows(operator, name: str, dtype: torch.dtype, entries: tuple[int, ...], batch: int) -> None:
    check(operator, name, Problem(Pattern(*entries), batch, dtype, "batch_last", "cuda"))


@pytest.mark.parametrize("name", WIDE)
# sums that are long enough for a stage more; X and Y that are large enough to leave the L2 cache in other turns, in the
# last case four times as much Y as X
@pytest.mark.parametrize("entries", [(1, 384, 96, 5), (1, 200, 520, 4), (1, 192, 192, 16), (2, 256, 64, 20)], ids=str)
def test_tiles_of_every_multiprocessor(operator, name: str, entries: tuple[int, ...]) -> None:
    check(operator, name, Problem(Pattern(*entries), 25_088, torch.float16, "batch_last", "cuda"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", STAYING)
@pytest.mark.parametrize(("layout", "d"), [("batch_last", 3), ("batch_first", 1)])
# one stage of c, whose two parts of sums follow each other, two, three and more; a block's tiles are one or several
@pytest.mark.parametrize(
    ("c", "batch"), [(40, 5_000), (64, 64), (128, 5_000), (136, 8_000), (512, 64), (512, 25_088), (1032, 5_000)]
)
def test_blocks_that_stay(operator, name: str, dtype: torch.dtype, layout: str, d: int, c: int, batch: int) -> None:
    b = 64 if name == "gemm streamed 96" else 320
    check(operator, name, Problem(Pattern(2, b, c, d), batch, dtype, layout, "cuda"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("layout", "d"), [("batch_last", 3), ("batch_first", 1)])
# One stage of c, two and four, which the ring holds a whole number of times, and three, six, nine and seventeen, which
# it does not; two tiles of r, of which each cluster has one, four, which 66 clusters cannot share evenly,
# and two of which one is narrower.
@pytest.mark.parametrize(
    ("b", "c"),
    [
        *[(256, 256), (256, 200), (200, 40), (72, 128), (256, 136), (256, 1032)],
        *[(512, 520), (1024, 328), (1024, 136), (504, 520)],
    ],
)
@pytest.mark.parametrize("batch", [6_200, 25_088])
def test_weight_that_a_ring_keeps(
    operator, dtype: torch.dtype, layout: str, d: int, b: int, c: int, batch: int
) -> None:
    check(operator, "gemm streamed 256", Problem(Pattern(2, b, c, d), batch, dtype, layout, "cuda"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize(("layout", "d"), [("batch_last", 3), ("batch_first", 1)])
@pytest.mark.parametrize(("b", "c"), [(48, 64), (40, 8), (8, 200)])
@pytest.mark.parametrize("batch", [8, 64, 72, 136, 5_000, 25_088])
def test_blocks_with_one_tile(
    operator, name: str, dtype: torch.dtype, layout: str, d: int, b: int, c: int, batch: int
) -> None:
    check(operator, name, Problem(Pattern(3, b, c, d), batch, dtype, layout, "cuda"))


@pytest.mark.parametrize("name", SINGLE_OF_SEVERAL)
@pytest.mark.parametrize(("layout", "d"), [("batch_last", 2), ("batch_first", 1)])
@pytest.mark.parametrize(("b", "c"), [(72, 448), (200, 40), (392, 320)])
@pytest.mark.parametrize("batch", [8, 200, 5_000])
def test_blocks_with_one_of_several_tiles_of_r(
    operator, name: str, layout: str, d: int, b: int, c: int, batch: int
) -> None:
    check(operator, name, Problem(Pattern(2, b, c, d), batch, torch.float16, layout, "cuda"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", (*SPREADING[:2], *RESIDENT))
# c d that ends within a stage, or reaches beyond the k of W; b d within a tile and beyond it
@pytest.mark.parametrize(
    "entries",
    [(2, 24, 32, 2), (3, 64, 16, 3), (1, 50, 72, 4), (1, 200, 256, 2), (2, 4, 40, 6), (1, 5, 8, 8), (3, 72, 8, 8)],
    ids=str,
)
@pytest.mark.parametrize("batch", [1, 77, 5_000])
def test_weight_spread_over_planes(
    operator, name: str, dtype: torch.dtype, entries: tuple[int, ...], batch: int
) -> None:
    if entries == (1, 200, 256, 2) and name in RESIDENT[1:]:
        pytest.skip("c d = 512 rows of W, of 192 columns and more, do not fit into shared memory")
    check(operator, name, Problem(Pattern(*entries), batch, dtype, "batch_first", "cuda"))


@pytest.mark.parametrize("name", (*SPREADING, *RESIDENT[:1]))
@pytest.mark.parametrize("entries", [(3, 24, 32, 2), (2, 16, 80, 3), (1, 8, 64, 6), (1, 12, 24, 8)], ids=str)
def test_weight_spread_over_the_planes_of_one_tile(operator, name: str, entries: tuple[int, ...]) -> None:
    check(operator, name, Problem(Pattern(*entries), 25_088, torch.float16, "batch_first", "cuda"))


@pytest.mark.parametrize("name", RESIDENT)
# a matrix for all blocks, one for each of some, more than there are blocks, and parts of two for some blocks
@pytest.mark.parametrize(
    ("entries", "batch"),
    [((1, 64, 64, 3), 25_088), ((1, 100, 48, 4), 9_999), ((200, 40, 24, 2), 700), ((88, 20, 16, 4), 1_000)],
    ids=str,
)
def test_blocks_that_stay_with_a_matrix(operator, name: str, entries: tuple[int, int, int, int], batch: int) -> None:
    check(operator, name, Problem(Pattern(*entries), batch, torch.float16, "batch_first", "cuda"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", (*SPREADING[:2], *RESIDENT))
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_infinities_stay_in_their_plane(operator, name: str, dtype: torch.dtype, value: float) -> None:
    b, c = 40, 40
    problem = Problem(Pattern(2, b, c, 4), 300, dtype, "batch_first", "cuda")
    x, weight = inputs(problem)
    weight[0, 3, 5] = 0  # of which infinity makes NaN, in its own plane, too
    x[7, 5 * 4 + 1] = x[70, c * 4 + 2] = x[299, c * 4 * 2 - 1] = value
    stored, bias = stored_as(weight, "packed"), bias_of(problem, True)
    poison(problem)
    y = operator(x, stored, "batch_first", bias, "default", number_of(name, x, stored, "batch_first"))
    reference = expected(x, weight, "batch_first", bias)
    assert 0 < (~reference.isfinite()).sum() <= 3 * b  # and of no other plane
    assert_close_where_finite(y, reference, tolerance(dtype, problem.pattern), name)
