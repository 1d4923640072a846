"""float32 by default is no less exact than float32 multiply-adds, and TF32 is used where the user allows it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from ksmm import Pattern, ks_matmul
from ksmm.problem import LAYOUTS, Problem
from ksmm.reference import reference_matmul, relative_error
from tests.cuda.products import assert_close_where_finite, inputs, put_infinities, stored_as
from tests.hard_operands import KINDS, badly_scaled, error, of_kind, row_of, with_one_badly_scaled_row
from tests.shapes import expected

pytestmark = pytest.mark.cuda

PATTERNS = [(2, 64, 64, 4), (1, 192, 48, 2), (1, 96, 96, 8), (2, 48, 192, 1), (1, 64, 256, 16), (1, 128, 1024, 2)]

BY_PARTS = ("few", "small strict 2 parts", "small strict 4 parts")
"""Configurations that multiply and add as strict does, but add up parts of a sum."""

every_pattern = pytest.mark.parametrize("entries", PATTERNS, ids=str)
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def by_configuration(operator, x: torch.Tensor, weight: torch.Tensor, layout: str) -> dict[str, torch.Tensor]:
    """The product in every configuration, by name."""
    packed = stored_as(weight, "packed")
    entries = [entry.split(" ", 1) for entry in torch.ops.ksmm.configurations(x, packed, layout)]
    return {name: operator(x, packed, layout, None, "default", int(n)) for n, name in entries}


def with_matrix_units(products: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Those of configurations that have them; skips where there is none."""
    found = {name: y for name, y in products.items() if name not in BY_PARTS and not name.endswith("strict")}
    if not found:
        pytest.skip("this device has no configuration for float32 with matrix units")
    return found


def by_matrix_units(operator, x: torch.Tensor, weight: torch.Tensor, layout: str) -> dict[str, torch.Tensor]:
    """The product in every configuration that has matrix units, by name; skips where there is none."""
    return with_matrix_units(by_configuration(operator, x, weight, layout))


@every_pattern
@every_layout
@pytest.mark.parametrize("kind", KINDS)
def test_default_is_as_exact_as_strict(operator, layout: str, entries: tuple[int, ...], kind: str) -> None:
    x, weight = of_kind(kind, Pattern(*entries), layout, 512, "cuda")
    products = by_configuration(operator, x, weight, layout)
    strict = error(products["strict"], x, weight, layout)
    found = {name: error(y, x, weight, layout) for name, y in products.items()}
    # a sixteenth of X makes up each sum: strict's best case but for badly scaled weights, multiplied as strict does
    allowed = 1.03 * strict if kind == "few large" else strict
    assert max(found.values()) <= allowed, f"strict {strict}, {found}"


@pytest.mark.parametrize("c", [48, 52, 56, 60, 64, 68, 72, 76, 80, 84, 96])
@pytest.mark.parametrize("d", [1, 2, 4, 8, 16])
@every_layout
def test_weights_that_are_less_badly_scaled_than_x(operator, layout: str, d: int, c: int) -> None:
    """Too little for anything to look for it, the most that the matrix units have to get right."""
    x, weight = of_kind("badly scaled X", Pattern(2, 64, c, d), layout, 1024, "cuda")
    weight = badly_scaled(weight, 3)
    products = by_configuration(operator, x, weight, layout)
    strict = error(products["strict"], x, weight, layout)
    found = {name: error(y, x, weight, layout) for name, y in products.items()}
    assert max(found.values()) <= strict, f"strict {strict}, {found}"


@pytest.mark.parametrize("entries", [(1, 64, 8, 4), (2, 48, 20, 1), (1, 40, 28, 7), (3, 33, 5, 2)], ids=str)
@pytest.mark.parametrize("batch_size", [1, 3, 29, 77])
@every_layout
def test_short_sums_of_few_rows_are_strict(operator, layout: str, batch_size: int, entries: tuple[int, ...]) -> None:
    x, weight = of_kind("badly scaled", Pattern(*entries), layout, batch_size, "cuda")
    products = by_configuration(operator, x, weight, layout)
    assert torch.equal(products["few"], products["strict"])


@pytest.mark.parametrize("entries", [(1, 64, 32, 4), (2, 48, 40, 1), *PATTERNS], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@every_layout
def test_few_rows_are_as_exact_as_strict(operator, layout: str, kind: str, entries: tuple[int, ...]) -> None:
    """By the kernel for them, which multiplies no more than eight rows at a time."""
    x, weight = of_kind(kind, Pattern(*entries), layout, 1024, "cuda")
    products = by_configuration(operator, x, weight, layout)
    few, strict = (error(products[name], x, weight, layout) for name in ("few", "strict"))
    assert few <= strict


@every_pattern
@every_layout
def test_one_badly_scaled_row_of_the_weight(operator, layout: str, entries: tuple[int, ...]) -> None:
    pattern, r = Pattern(*entries), entries[1] - 3
    x, weight, row = with_one_badly_scaled_row(*inputs(Problem(pattern, 512, torch.float32, layout, "cuda")), r)

    def error_of_row(y: torch.Tensor) -> float:
        return error(row_of(y, pattern, r, layout), x, row, layout)

    products = by_configuration(operator, x, weight, layout)
    strict = error_of_row(products["strict"])
    found = {name: error_of_row(y) for name, y in products.items()}
    assert max(found.values()) <= strict, f"strict {strict}, {found}"


@every_pattern
@every_layout
def test_badly_scaled_weights_are_multiplied_as_strict_does(operator, layout: str, entries: tuple[int, ...]) -> None:
    x, weight = of_kind("badly scaled W", Pattern(*entries), layout, 517, "cuda")
    products = by_configuration(operator, x, weight, layout)
    found = with_matrix_units(products)
    strict = products["strict"]
    others = [name for name, y in found.items() if not torch.equal(y, strict)]
    # "padded" makes the product that it thinks is the fastest, which may be one of parts
    by_parts = [products[name] for name in BY_PARTS if name in products]
    assert not [name for name in others if name != "padded" or not any(torch.equal(found[name], y) for y in by_parts)]


@every_layout
def test_an_infinite_weight_wherever_it_is(operator, layout: str) -> None:
    pattern = Pattern(1, 136, 72, 9)
    x, weight = inputs(Problem(pattern, 300, torch.float32, layout, "cuda"))
    for r in range(0, pattern.b, 8):  # each block that looks at W has some of them
        j, k = r // 8 % pattern.d, r % pattern.c
        infinite = weight.clone()
        infinite[0, r, k, j] = torch.inf
        expected_rows = row_of(reference_matmul(infinite.double(), x.double(), layout), pattern, r, layout)
        for name, y in by_configuration(operator, x, infinite, layout).items():
            rows = row_of(y, pattern, r, layout).double()
            assert torch.equal(rows.isinf(), expected_rows.isinf()), (name, r, j)
            assert torch.equal(rows[rows.isinf()], expected_rows[rows.isinf()]), (name, r, j)
            assert row_of(y, pattern, (r + 1) % pattern.b, layout).isfinite().all(), (name, r, j)


@every_layout
def test_sums_of_few_products_are_left_to_strict(operator, layout: str) -> None:
    x, weight = of_kind("badly scaled X", Pattern(2, 64, 40, 4), layout, 512, "cuda")
    assert torch.equal(operator(x, weight, layout), operator(x, weight, layout, None, "strict"))


@pytest.fixture(params=("allow_tf32", "fp32_precision"))
def tf32_allowed(request) -> Iterator[None]:
    """By each of PyTorch's two switches; the second, since 2.9, makes questions for the first an error."""
    matmul = torch.backends.cuda.matmul
    if not hasattr(matmul, request.param):
        pytest.skip(f"PyTorch {torch.__version__} has no {request.param}")
    setattr(matmul, request.param, True if request.param == "allow_tf32" else "tf32")
    yield
    setattr(matmul, request.param, False if request.param == "allow_tf32" else "ieee")


@every_pattern
@every_layout
def test_tf32_where_the_user_allows_it(operator, layout: str, entries: tuple[int, ...], tf32_allowed) -> None:
    x, weight = inputs(Problem(Pattern(*entries), 512, torch.float32, layout, "cuda"))
    for name, y in by_matrix_units(operator, x, weight, layout).items():
        reference = reference_matmul(weight, x, layout)
        relative = (torch.linalg.vector_norm(y - reference) / torch.linalg.vector_norm(reference)).item()
        assert 1e-5 < relative < 2e-3, f"{name}: {relative}"


@every_pattern
@every_layout
@pytest.mark.parametrize("of", ("x", "weight"))
def test_infinities_and_nan_in_tf32(operator, of: str, layout: str, entries: tuple[int, ...], tf32_allowed) -> None:
    x, weight = inputs(Problem(Pattern(*entries), 300, torch.float32, layout, "cuda"))
    weight = torch.where(weight == 0, torch.ones_like(weight), weight)
    put_infinities(x if of == "x" else weight, 5)
    reference = expected(x, weight, layout, None)
    for name, y in by_configuration(operator, x, weight, layout).items():
        assert_close_where_finite(y, reference, 2e-3, name)


@pytest.mark.usefixtures("operator")
@every_pattern
@every_layout
def test_gradients_of_strict_are_strict_where_tf32_is_allowed(
    layout: str, entries: tuple[int, ...], tf32_allowed
) -> None:
    x, weight = inputs(Problem(Pattern(*entries), 512, torch.float32, layout, "cuda"))
    of_y = torch.randn_like(ks_matmul(x, weight, layout, "bmm"))
    references = reference_gradients(x, weight, layout, of_y)
    errors = {
        name: [relative_error(*pair) for pair in zip(gradients(x, weight, layout, name, of_y), references, strict=True)]
        for name in ("kernel_strict", "kernel")
    }
    assert max(errors["kernel_strict"]) < 3e-6, errors
    assert errors["kernel"][1] > 1e-5, errors


def gradients(
    x: torch.Tensor, weight: torch.Tensor, layout: str, implementation: str, of_y: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Of X and of the weight."""
    x, weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    return torch.autograd.grad(ks_matmul(x, weight, layout, implementation), (x, weight), of_y)


def reference_gradients(
    x: torch.Tensor, weight: torch.Tensor, layout: str, of_y: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same, in float64."""
    a, b, c, d = weight.shape
    rows_of_x, rows_of_y = (x, of_y) if layout == "batch_first" else (x.T, of_y.T)
    parts = rows_of_y.reshape(-1, a, b, d).double(), rows_of_x.reshape(-1, a, c, d).double()
    return reference_matmul(weight.transpose(1, 2), of_y, layout), torch.einsum("nirj,nikj->irkj", *parts)
