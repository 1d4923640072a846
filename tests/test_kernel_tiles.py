"""The CPU's kernel by products of tiles (AMX), which is taken for large problems, for problems of any size.

Which variant a process uses is settled at its first product, so these tests run in a process of their own.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given

from ksmm import Pattern, implementations
from ksmm.problem import LAYOUTS, Problem
from ksmm.reference import reference_matmul
from tests.conftest import TOLERANCES
from tests.cuda.products import assert_close, inputs
from tests.hard_operands import KINDS, error, of_kind, row_of, with_one_badly_scaled_row
from tests.shapes import assert_the_same_whatever_the_threads, bias_of, examples, expected, poison, problems

VARIANT = "KSMM_CPU_VARIANT"
IS_HERE = os.environ.get(VARIANT) == "amx"
here = pytest.mark.skipif(not IS_HERE, reason="for the process that test_by_tiles starts")
every_layout = pytest.mark.parametrize("layout", LAYOUTS)
# d < 16 and up to three blocks of 16 j; b and c beside whole tiles; sums in several stages
PATTERNS = [(2, 64, 64, 4), (1, 48, 80, 1), (3, 17, 34, 3), (1, 40, 600, 2), (1, 33, 30, 20), (2, 16, 32, 40)]


@pytest.mark.skipif(IS_HERE, reason="this is that process")
def test_by_tiles(request: pytest.FixtureRequest) -> None:
    """Starts the others."""
    kernel = implementations()["kernel"]
    reason = kernel.supports(Problem(Pattern(1, 1, 1, 1), 1, torch.float32, "batch_first"))
    if reason is not None or not torch.ops.ksmm.multiplies_by_tiles():
        pytest.skip(reason or "this machine has no AMX")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", __file__]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment[VARIANT] = "amx"
    root = request.config.rootpath
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def product(x, weight, layout, bias=None, precision="default"):
    supported = implementations()["kernel"].supports(Problem(Pattern(1, 1, 1, 1), 1, torch.float32, layout))
    assert supported is None, supported
    return torch.ops.ksmm.ks_matmul(x, weight, layout, bias, precision)


@here
@examples
@given(problem=problems("cpu"))
def test_any_shape(problem: Problem) -> None:
    x, weight = inputs(problem)
    for bias in (None, bias_of(problem, True)):
        poison(problem)
        y = product(x, weight, problem.layout, bias)
        assert_close(y, expected(x, weight, problem.layout, bias), TOLERANCES[problem.dtype])


@here
@every_layout
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("entries", PATTERNS, ids=str)
def test_float32_is_as_exact_as_strict(entries, layout, kind) -> None:
    x, weight = of_kind(kind, Pattern(*entries), layout, 80, "cpu")
    strict = error(product(x, weight, layout, precision="strict"), x, weight, layout)
    by_tiles = error(product(x, weight, layout), x, weight, layout)
    assert by_tiles <= strict


@here
@every_layout
@pytest.mark.parametrize("entries", PATTERNS, ids=str)
def test_one_badly_scaled_row_of_the_weight(entries, layout) -> None:
    pattern, r = Pattern(*entries), entries[1] - 3
    x, weight, row = with_one_badly_scaled_row(*inputs(Problem(pattern, 80, torch.float32, layout)), r)

    def error_of_row(precision: str) -> float:
        y = product(x, weight, layout, precision=precision)
        return error(row_of(y, pattern, r, layout), x, row, layout)

    assert error_of_row("default") <= error_of_row("strict")


@here
@every_layout
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, "largest", "smallest"])
def test_what_planes_cannot_be_is_computed_otherwise(value, dtype, layout) -> None:
    if isinstance(value, str):
        value = torch.finfo(dtype).max if value == "largest" else torch.finfo(dtype).smallest_normal / 4
    x, weight = inputs(Problem(Pattern(2, 40, 48, 3), 50, dtype, layout))
    for changed in (x, weight):
        kept = changed.clone()
        changed.view(-1)[::257] = value
        y, reference = product(x, weight, layout), reference_matmul(weight, x, layout)
        rounded, tolerance = reference.to(dtype), TOLERANCES[dtype]
        torch.testing.assert_close(y, rounded, rtol=tolerance, atol=10 * tolerance, equal_nan=True)
        assert torch.equal(y.isnan(), rounded.isnan()) and torch.equal(y.isinf(), rounded.isinf())
        changed.copy_(kept)


@here
@every_layout
def test_products_below_all_normal_numbers_are_not_lost(layout) -> None:
    problem = Problem(Pattern(1, 32, 4096, 1), 16, torch.float32, layout)
    x, weight = (tensor.abs() for tensor in inputs(problem))
    x, weight = 1e-20 * x / x.mean(), 1e-19 * weight / weight.mean()  # each product is subnormal, no sum is
    y, reference = product(x, weight, layout), reference_matmul(weight, x, layout)
    assert reference.min() > torch.finfo(torch.float32).smallest_normal
    assert_close(y * 2.0**64, reference * 2.0**64, 1e-3)


@here
@every_layout
def test_zeros_give_zeros(layout) -> None:
    x, weight = inputs(Problem(Pattern(2, 40, 48, 3), 50, torch.float32, layout))
    assert product(torch.zeros_like(x), weight, layout).abs().max() == 0
    y = product(x, torch.zeros_like(weight), layout)
    assert y.abs().max() == 0


@here
@every_layout
@pytest.mark.parametrize("dtype", list(TOLERANCES), ids=str)
def test_the_result_is_the_same_whatever_the_threads(dtype, layout) -> None:
    x, weight = inputs(Problem(Pattern(3, 50, 200, 6), 300, dtype, layout))
    assert_the_same_whatever_the_threads(lambda: product(x, weight, layout))


@here
@every_layout
def test_strict_is_not_by_tiles(layout) -> None:
    x, weight = inputs(Problem(Pattern(1, 64, 64, 1), 64, torch.float32, layout))
    assert not torch.equal(product(x, weight, layout), product(x, weight, layout, precision="strict"))


@here
def test_weights_of_any_strides() -> None:
    x, weight = inputs(Problem(Pattern(2, 35, 70, 3), 20, torch.float32, "batch_first"))
    y = product(x, weight, "batch_first")
    for order in ((0, 3, 2, 1), (3, 1, 0, 2), (1, 2, 3, 0)):
        stored = weight.permute(order).contiguous().permute([order.index(axis) for axis in range(4)])
        assert torch.equal(product(x, stored, "batch_first"), y)
