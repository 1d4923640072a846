"""The CUDA kernel's results against float64: every dtype and layout, patterns and batches ragged in every direction."""

from __future__ import annotations

import pytest
import torch

from ksmm import Pattern
from ksmm.problem import LAYOUTS, Problem
from ksmm.reference import reference_matmul
from tests.conftest import TOLERANCES
from tests.cuda.products import (
    WEIGHT_ORDERS,
    assert_close,
    assert_close_where_finite,
    check,
    inputs,
    number_of,
    put_infinities,
    stored_as,
    tolerance,
)

pytestmark = pytest.mark.cuda

BATCHES = (0, 1, 2, 7, 77, 1000)
RAGGED = (1, 3, 5, 7, 40, 56, 200)
CATALOGUE = [
    *[(1, 192, 48, 2), (2, 48, 192, 1), (6, 64, 64, 1), (1, 768, 192, 2), (1, 1024, 1024, 1), (1, 64, 600, 4)],
    *[(4, 64, 64, 16), (8, 192, 192, 16), (3, 48, 48, 16), (1, 2, 2, 512), (512, 2, 2, 1), (16, 2, 2, 16)],
    *[(1, 256, 256, 4), (4, 128, 128, 8), (2, 96, 384, 64), (1, 65, 33, 6), (2, 129, 17, 12), (5, 1, 1, 9)],
]
LARGE_A = [(70_000, 1, 1, 1), (70_000, 2, 3, 1), (66_000, 3, 2, 2), (65_537, 1, 5, 3)]

every_dtype = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


@pytest.mark.parametrize("entries", CATALOGUE, ids=str)
@every_dtype
@every_layout
def test_catalogue(operator, layout: str, dtype: torch.dtype, entries: tuple[int, ...]) -> None:
    for batch in BATCHES:
        check(operator, Problem(Pattern(*entries), batch, dtype, layout, "cuda"))


@pytest.mark.parametrize("d", (1, 2, 3, 4, 5, 7, 8, 12, 16, 20, 64, 100))
@every_dtype
@every_layout
def test_ragged(operator, layout: str, dtype: torch.dtype, d: int) -> None:
    for b in RAGGED:
        for c in RAGGED:
            for batch in (2, 77):
                check(operator, Problem(Pattern(2, b, c, d), batch, dtype, layout, "cuda"))


@pytest.mark.parametrize("entries", LARGE_A, ids=str)
@every_dtype
@every_layout
def test_more_blocks_than_the_y_dimension_of_a_grid_holds(operator, layout, dtype, entries) -> None:
    for batch in (1, 7):
        check(operator, Problem(Pattern(*entries), batch, dtype, layout, "cuda"))


@pytest.mark.parametrize("batch", [77, 80, 1001])
@pytest.mark.parametrize("d", [1, 4, 16])
@every_dtype
@every_layout
def test_rows_that_are_all_the_same_place(operator, layout: str, dtype: torch.dtype, d: int, batch: int) -> None:
    """What the gradient of a sum is: expanded, with a stride of 0."""
    problem = Problem(Pattern(2, 72, 64, d), batch, dtype, layout, "cuda")
    x, weight = inputs(problem)
    expanded = x[:1].expand(x.shape)
    assert expanded.stride(0) == 0
    y = operator(expanded, weight, layout)
    reference = reference_matmul(weight.double(), expanded.double(), layout)
    assert_close(y, reference, tolerance(dtype, problem.pattern))


@pytest.mark.parametrize("configuration", [-2, 2**31 - 1, 2**31, 2**32, -(2**40)])
def test_a_number_of_no_configuration_leaves_the_choice_to_the_cost_model(operator, configuration: int) -> None:
    x, weight = inputs(Problem(Pattern(1, 64, 48, 2), 300, torch.float16, "batch_first", "cuda"))
    expected = operator(x, weight, "batch_first")
    assert torch.equal(operator(x, weight, "batch_first", None, "default", configuration), expected)
    assert torch.ops.ksmm.keep(x, weight, "batch_first", "default", configuration)[0] >= 0


@every_dtype
@every_layout
def test_long_batch(operator, layout: str, dtype: torch.dtype) -> None:
    for entries in ((1, 8, 4, 1), (1, 4, 8, 2), (2, 3, 5, 16)):
        for batch in (25_088, 300_001):
            check(operator, Problem(Pattern(*entries), batch, dtype, layout, "cuda"))


@pytest.mark.parametrize("order", WEIGHT_ORDERS)
@pytest.mark.parametrize("entries", [(2, 40, 56, 1), (2, 64, 32, 2), (3, 24, 40, 4), (2, 33, 16, 8), (2, 48, 64, 16)])
@every_dtype
@every_layout
def test_weights_in_any_order(operator, layout: str, dtype: torch.dtype, entries, order: str) -> None:
    for batch in (1, 77, 128):
        check(operator, Problem(Pattern(*entries), batch, dtype, layout, "cuda"), order)


@pytest.mark.parametrize("entries", [(2, 40, 56, 1), (2, 64, 32, 2), (3, 24, 40, 4), (2, 33, 16, 7), (2, 48, 64, 16)])
@every_dtype
@every_layout
def test_views_with_offsets_and_row_strides(operator, layout: str, dtype: torch.dtype, entries) -> None:
    pattern = Pattern(*entries)
    for batch in (5, 64):
        problem = Problem(pattern, batch, dtype, layout, "cuda")
        rows, columns = problem.input_shape
        x, weight = inputs(problem)
        spread = torch.full((pattern.nnz * 3 + 1,), float("nan"), device="cuda", dtype=dtype)
        weight_view = spread[1:].as_strided(pattern.weight_shape, [3 * s for s in weight.stride()], 1)
        weight_view.copy_(weight)
        reference = reference_matmul(weight, x, layout)
        for offset, padding in ((0, 8), (1, 0), (1, 7), (8, 3), (3, 16)):
            buffer = torch.full((rows * (columns + padding) + offset,), float("nan"), device="cuda", dtype=dtype)
            view = buffer[offset:].view(rows, columns + padding)[:, :columns]
            view.copy_(x)
            for operand in (stored_as(weight, "packed"), weight_view):
                y = operator(view, operand, layout)
                assert_close(y, reference, tolerance(dtype, pattern))


@pytest.mark.parametrize("entries", [(2, 5, 7, 1), (2, 40, 20, 2), (1, 9, 33, 3), (2, 17, 24, 8), (2, 40, 40, 16)])
@every_dtype
@every_layout
def test_infinities_and_nan_go_where_they_must(operator, layout: str, dtype: torch.dtype, entries) -> None:
    problem = Problem(Pattern(*entries), 37, dtype, layout, "cuda")
    x, weight = inputs(problem)
    weight = torch.where(weight == 0, torch.ones_like(weight), weight)
    put_infinities(x, 5), put_infinities(weight, 3)
    y = operator(x, stored_as(weight, "packed"), layout)
    assert_close_where_finite(y, reference_matmul(weight, x, layout), tolerance(dtype, problem.pattern))


@every_dtype
@every_layout
def test_every_output_is_written(operator, layout: str, dtype: torch.dtype) -> None:
    for entries in ((2, 40, 56, 1), (3, 5, 7, 3), (2, 33, 17, 16)):
        problem = Problem(Pattern(*entries), 77, dtype, layout, "cuda")
        x, weight = inputs(problem)
        poison = torch.full(problem.output_shape, float("nan"), device="cuda", dtype=dtype)
        address = poison.data_ptr()
        del poison
        y = operator(x, weight, layout)
        assert y.data_ptr() == address, "the allocator did not hand out the poisoned memory: the test shows nothing"
        assert_close(y, reference_matmul(weight, x, layout), tolerance(dtype, problem.pattern))


@every_dtype
@pytest.mark.parametrize(("batch", "offset"), [(2051, 0), (2048, 1), (4097, 3)])
def test_rows_that_no_vector_fits_by_way_of_copies(dtype: torch.dtype, batch: int, offset: int, operator) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the copies are for the kernels of compute capability 9.0")
    for entries in ((2, 24, 40, 3), (1, 64, 48, 8), (1, 9, 7, 1)):
        pattern = Pattern(*entries)
        buffer = torch.randn(pattern.columns * batch + offset, device="cuda").to(dtype)
        x = buffer[offset:].view(pattern.columns, batch)
        weight = torch.randn(pattern.weight_shape, device="cuda").div(pattern.c**0.5).to(dtype)
        bias = torch.randn(pattern.rows, device="cuda").to(dtype)
        number = number_of("padded", x, weight, "batch_last")
        y = torch.ops.ksmm.ks_matmul(x, weight, "batch_last", bias, "default", number)
        expected = reference_matmul(weight.double(), x.double(), "batch_last") + bias.double()[:, None]
        assert_close(y, expected, tolerance(dtype, pattern))


SHIFTED = (
    *(f"shifted single r{columns}" for columns in (64, 128, 192)),
    *(f"shifted r{size}" for size in ("64 n128", "64 n256", "128 n256", "192 n192")),
)
OF_EVERY_NUMBER_OF_CLASSES = (
    (2, 72, 40, 16),
    (1, 200, 88, 8),
    (3, 36, 68, 4),
    (2, 104, 136, 2),
    (1, 144, 72, 3),
    (1, 136, 72, 3),
    (2, 72, 40, 1),
)
"""d times an odd batch decides in how many rows k or r the shifts repeat: in 1 to 8, or, by sectors, in 1 to 16."""


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", SHIFTED)
@pytest.mark.parametrize("entries", OF_EVERY_NUMBER_OF_CLASSES)
@pytest.mark.parametrize(("batch", "offset", "spare"), [(1031, 0, 0), (517, 3, 0), (1030, 1, 5), (77, 0, 0), (5, 1, 2)])
def test_rows_that_begin_anywhere_in_one_pass(operator, dtype, name, entries, batch, offset, spare) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the copy engine is that of compute capability 9.0")
    pattern = Pattern(*entries)
    buffer = torch.randn(pattern.columns * (batch + spare) + offset, device="cuda").to(dtype)
    x = buffer[offset:].view(pattern.columns, batch + spare)[:, :batch]
    weight = torch.randn(pattern.weight_shape, device="cuda").div(pattern.c**0.5).to(dtype)
    bias = torch.randn(pattern.rows, device="cuda").to(dtype)
    number = number_of(name, x, weight, "batch_last")
    expected = reference_matmul(weight.double(), x.double(), "batch_last") + bias.double()[:, None]
    y = torch.ops.ksmm.ks_matmul(x, weight, "batch_last", bias, "default", number)
    assert_close(y, expected, tolerance(dtype, pattern))
    again = torch.ops.ksmm.ks_matmul(x, weight, "batch_last", bias, "default", number)
    assert torch.equal(y, again)


SHIFTED_FLOAT32 = [f"tf32 shifted {r}" for r in (48, 64, 96, 128)] + [f"halves shifted {r}" for r in (64, 96, 128)]


@pytest.mark.parametrize("name", SHIFTED_FLOAT32)
@pytest.mark.parametrize(
    "entries", [(2, 72, 72, 16), (1, 200, 88, 1), (3, 36, 68, 4), (2, 104, 136, 2), (1, 136, 72, 3)]
)
@pytest.mark.parametrize(
    ("batch", "offset", "spare"), [(1031, 0, 0), (517, 3, 0), (1030, 1, 5), (1024, 2, 4), (5, 1, 2)]
)
def test_rows_of_float32_that_begin_anywhere_in_one_pass(operator, name, entries, batch, offset, spare) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the copy engine is that of compute capability 9.0")
    pattern = Pattern(*entries)
    buffer = torch.full((pattern.columns * (batch + spare) + offset,), float("nan"), device="cuda")
    x = buffer[offset:].view(pattern.columns, batch + spare)[:, :batch]
    x.normal_()  # what lies between the rows is read, and must not matter
    weight = torch.randn(pattern.weight_shape, device="cuda").div(pattern.c**0.5)
    bias = torch.randn(pattern.rows, device="cuda")
    number = number_of(name, x, weight, "batch_last")
    expected = reference_matmul(weight.double(), x.double(), "batch_last") + bias.double()[:, None]
    y = operator(x, weight, "batch_last", bias, "default", number)
    assert_close(y, expected, tolerance(torch.float32, pattern))
    assert torch.equal(y, operator(x, weight, "batch_last", bias, "default", number))


@pytest.mark.parametrize("kind", ("none", "x", "weight"))
@pytest.mark.parametrize("c", (52, 72))
def test_rows_of_float32_that_begin_anywhere_with_infinities(operator, c: int, kind: str) -> None:
    problem = Problem(Pattern(2, 72, c, 3), 301, torch.float32, "batch_last", "cuda")
    x, weight = inputs(problem)
    if kind != "none":
        put_infinities(x if kind == "x" else weight, 5)
    reference = reference_matmul(weight.double(), x.double(), "batch_last")
    entries = [entry.split(" ", 1) for entry in torch.ops.ksmm.configurations(x, weight, "batch_last")]
    shifted = [(number, name) for number, name in entries if "shifted" in name]
    if not shifted:
        pytest.skip("this device has no tiles for rows that begin anywhere")
    for number, name in shifted:
        y = operator(x, weight, "batch_last", None, "default", int(number))
        assert_close_where_finite(y, reference, tolerance(torch.float32, problem.pattern), name)
