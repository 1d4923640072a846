"""Every way that is compiled in to multiply on CUDA, on problems of any shape, against float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, LAYOUTS, Problem
from tests.cuda.products import (
    assert_close,
    assert_close_where_finite,
    inputs,
    number_of,
    put_infinities,
    stored_as,
    tolerance,
)
from tests.shapes import beginning_elsewhere, bias_of, examples, expected, poison, problems

pytestmark = pytest.mark.cuda


@pytest.mark.parametrize("order", ("canonical", "packed"))
@given(problem=problems("cuda"), with_bias=st.booleans())
@examples
def test_any_shape(operator, order: str, problem: Problem, with_bias: bool) -> None:
    x, weight = inputs(problem)
    bias = bias_of(problem, with_bias)
    reference = expected(x, weight, problem.layout, bias)
    stored = stored_as(weight, order)
    for entry in torch.ops.ksmm.configurations(x, stored, problem.layout):
        number, name = entry.split(" ", 1)
        results = []
        for own in (bias, beginning_elsewhere(bias)):
            poison(problem)
            results.append(operator(x, stored, problem.layout, own, "default", int(number)))
        try:
            assert_close(results[0], reference, tolerance(problem.dtype, problem.pattern))
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
        assert torch.equal(*results), f"{name}: two runs differ"


@pytest.mark.parametrize(
    ("entries", "batch"),
    [((40, 90, 260, 1), 3203), ((40, 120, 130, 1), 3203), ((4, 96, 100, 130), 256), ((4, 120, 200, 130), 130)],
    ids=str,
)
@pytest.mark.parametrize("order", ("canonical", "transposed"))
@pytest.mark.parametrize("with_bias", (False, True))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strict_tiles_of_large_problems(
    operator, layout: str, with_bias: bool, order: str, entries: tuple[int, ...], batch: int
) -> None:
    problem = Problem(Pattern(*entries), batch, torch.float32, layout, "cuda")
    x, weight = inputs(problem)
    stored, bias = stored_as(weight, order), bias_of(problem, with_bias)
    number = number_of("strict", x, stored, layout)
    poison(problem)
    y = operator(x, stored, layout, bias, "strict", number)
    assert_close(y, expected(x, weight, layout, bias), tolerance(problem.dtype, problem.pattern))


@pytest.mark.parametrize("of", ("x", "weight"))
@pytest.mark.parametrize("d", (1, 2, 3, 4, 6, 8, 12, 16))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_infinities_and_nan_in_float32_on_the_matrix_units(operator, layout: str, d: int, of: str) -> None:
    problem = Problem(Pattern(2, 72, 72, d), 300, torch.float32, layout, "cuda")
    x, weight = inputs(problem)
    weight = torch.where(weight == 0, torch.ones_like(weight), weight)
    put_infinities(x if of == "x" else weight, 5)
    stored, reference = stored_as(weight, "packed"), expected(x, weight, layout, None)
    for entry in torch.ops.ksmm.configurations(x, stored, layout):
        number, name = entry.split(" ", 1)
        y = operator(x, stored, layout, None, "default", int(number))
        assert_close_where_finite(y, reference, tolerance(problem.dtype, problem.pattern), name)


@pytest.mark.parametrize("d", (1, 2, 3, 4, 6, 8, 12, 16, 24, 48))
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
@pytest.mark.parametrize(("b", "c"), ((72, 32), (200, 32), (200, 48), (72, 72)))
def test_each_bias_reaches_its_column(operator, b: int, c: int, dtype: torch.dtype, d: int) -> None:
    for layout in LAYOUTS:
        problem = Problem(Pattern(2, b, c, d), 300, dtype, layout, "cuda")
        x, weight = inputs(problem)
        stored, bias = stored_as(torch.zeros_like(weight), "packed"), bias_of(problem, True)
        bias[3], bias[b], bias[-1] = float("inf"), float("nan"), -float("inf")
        y = (bias if layout == "batch_first" else bias[:, None]).expand(problem.output_shape)
        there = ~y.isnan()
        for entry in torch.ops.ksmm.configurations(x, stored, layout):
            number, name = entry.split(" ", 1)
            for own in (bias, beginning_elsewhere(bias)):
                result = operator(x, stored, layout, own, "default", int(number))
                assert torch.equal(result.isnan(), ~there), f"{name}, {layout}: NaN elsewhere"
                assert torch.equal(result[there], y[there]), f"{name}, {layout}"


@pytest.mark.parametrize(
    ("name", "dtype", "batch"),
    [
        ("three passes", torch.float32, 70_001),
        ("three passes", torch.float32, 70_004),
        ("three passes", torch.float16, 140_001),
        ("two passes j16 r64", torch.float16, 140_001),
        ("overlapped passes", torch.float32, 70_001),
        ("overlapped passes", torch.float32, 70_004),
        ("overlapped passes strict", torch.float32, 70_004),
        ("overlapped passes", torch.float16, 140_001),
        ("overlapped two passes", torch.float16, 140_001),
    ],
    ids=str,
)
def test_several_passes_take_a_long_batch_in_parts(operator, name: str, dtype: torch.dtype, batch: int) -> None:
    problem = Problem(Pattern(1, 64, 64, 64), batch, dtype, "batch_first", "cuda")
    x, weight = inputs(problem)
    bias = bias_of(problem, True)
    stored = stored_as(weight, "packed")
    number = number_of(name, x, stored)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    y = operator(x, stored, "batch_first", bias, "default", number)
    assert torch.cuda.max_memory_allocated() - before < y.nbytes + 1.1 * 2**30  # what goes from pass to pass
    rows = torch.arange(0, batch, 97, device="cuda")
    assert_close(y[rows], expected(x[rows], weight, "batch_first", bias), tolerance(dtype, problem.pattern))
    assert y.isfinite().all()


@pytest.mark.parametrize(
    ("entries", "batch", "dtype", "family"),
    [
        ((1, 512, 512, 24), 4096, torch.float16, "three passes"),
        ((1, 384, 384, 24), 25088, torch.float16, "planes j24 r32 k16 row"),
        ((1, 256, 1024, 12), 25088, torch.float16, "planes j12 r64 k16 quad"),
        ((4, 384, 384, 16), 25088, torch.float16, "planes j16 r48 k16 row"),
        ((1, 768, 768, 24), 4096, torch.float16, "overlapped passes"),
        ((1, 192, 192, 96), 25088, torch.float16, "overlapped two passes"),
        ((2, 128, 128, 64), 25088, torch.float16, "one pass j16 r128"),
        ((1, 64, 256, 96), 25088, torch.float16, "one pass j16 r64"),
        ((1, 512, 512, 24), 25088, torch.float32, "overlapped passes"),
        ((1, 768, 768, 8), 25088, torch.float32, "overlapped passes"),
        ((4, 384, 384, 4), 25088, torch.float32, "halves first 4"),
        ((3, 128, 128, 64), 25088, torch.float32, "halves first sectors 64"),
        ((4, 48, 192, 64), 25088, torch.float32, "halves first sectors 64"),
        ((1, 64, 64, 64), 4096, torch.float16, "planes sector"),
        ((4, 64, 64, 16), 1, torch.float16, "few"),
        ((1, 64, 64, 4), 1, torch.float16, "few"),
        ((1, 256, 256, 1), 1, torch.float16, "gemm single"),
        ((4, 64, 64, 16), 77, torch.float16, "planes"),
        ((1, 256, 256, 1), 77, torch.float16, "gemm"),
        ((1, 256, 256, 1), 77, torch.float32, "few"),
        ((1, 64, 64, 4), 77, torch.float32, "few"),
        ((4, 64, 64, 16), 77, torch.float32, "small strict"),
        ((1, 256, 256, 1), 512, torch.float32, "small strict 4 parts"),
    ],
    ids=str,
)
def test_the_cost_model_finds_the_family_that_was_measured_to_be_the_fastest(
    operator, entries, batch, dtype, family
) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("measured on compute capability 9.0")
    of_an_h200 = family == "three passes" or entries == (1, 192, 192, 96)
    if of_an_h200 and "H200" not in torch.cuda.get_device_name():
        pytest.skip("measured on an H200; an H100, whose memory is slower, does as well or better another way")
    x, weight = inputs(Problem(Pattern(*entries), batch, dtype, "batch_first", "cuda"))
    chosen = torch.ops.ksmm.configurations(x, stored_as(weight, "packed"), "batch_first")[0]
    assert chosen.split(" ", 1)[1].startswith(family)
