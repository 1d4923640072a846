"""kernel_strict where the kernel has no other precision: it multiplies as the kernel, and is measured nowhere."""

from __future__ import annotations

import sys

import pytest
import torch

import ksmm
from ksmm import functional
from ksmm.implementations import get_implementation
from tests.test_linear import CHAIN, dense_twin

PATTERN = ksmm.Pattern(*CHAIN[0])


@pytest.fixture(params=[False, True], ids=["without AMX", "with AMX"])
def has_tiles(request, monkeypatch: pytest.MonkeyPatch):
    """Whether the CPU is one whose kernel is not strict."""
    if get_implementation("kernel").supports(ksmm.Problem(PATTERN, 1, torch.float32, "batch_first")):
        pytest.skip("the kernel library is not built")
    monkeypatch.setattr(sys.modules["ksmm.implementations.kernel"], "multiplies_by_tiles", lambda: request.param)
    functional._choices.cache_clear()
    yield request.param
    functional._choices.cache_clear()


def chosen(dtype: torch.dtype) -> str:
    ((_, _, name),) = functional.choices(tuple(PATTERN), dtype, "batch_first", "cpu", "kernel_strict")
    return name


def test_it_is_the_kernel_where_that_has_one_precision(has_tiles: bool) -> None:
    assert chosen(torch.float32) == ("kernel_strict" if has_tiles else "kernel")
    assert chosen(torch.float16) == chosen(torch.bfloat16) == "kernel"


def test_a_benchmark_leaves_it_out_there(has_tiles: bool) -> None:
    strict = get_implementation("kernel_strict")
    reason = strict.supports(ksmm.Problem(PATTERN, 1, torch.float32, "batch_first"))
    assert reason == (None if has_tiles else "on a CPU without AMX the kernel is strict anyway: choose kernel")
    reason = strict.supports(ksmm.Problem(PATTERN, 1, torch.float16, "batch_first"))
    assert reason == "dtype float16; only float32 has more than one precision: choose kernel"


@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
def test_a_layer_multiplies_frozen_and_not(has_tiles: bool, layout: str) -> None:
    layer = ksmm.KSLinear(CHAIN, layout=layout, implementation="kernel_strict")
    x = torch.randn(5, layer.in_features)
    expected = dense_twin(layer)(x)
    y = layer(x) if layout == "batch_first" else layer(x.T).T
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)
    y.sum().backward()
    assert layer.factors[0].grad is not None
    layer.freeze()
    with torch.no_grad():
        y = layer(x) if layout == "batch_first" else layer(x.T).T
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)


def test_under_autocast(has_tiles: bool) -> None:
    layer = ksmm.KSLinear(CHAIN, implementation="kernel_strict")
    x = torch.randn(5, layer.in_features)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), dense_twin(layer)(x), rtol=5e-2, atol=5e-2)


def test_compiled(has_tiles: bool) -> None:
    layer = ksmm.KSLinear(CHAIN, implementation="kernel_strict").freeze()
    x = torch.randn(5, layer.in_features)
    torch.compiler.reset()
    with torch.no_grad():
        y = torch.compile(layer, fullgraph=True, backend="eager")(x)
        torch.testing.assert_close(y, layer(x))


def test_a_dtype_that_the_kernel_does_not_take_is_named_with_one_way_out(has_tiles: bool) -> None:
    message = "'kernel_strict' .* float64, on cpu: dtype float64; the kernel takes .*; choose another one, or auto"
    with pytest.raises(ValueError, match=message) as caught:
        ksmm.ks_matmul(torch.zeros(2, 12).double(), torch.zeros(1, 12, 6, 2).double(), implementation="kernel_strict")
    assert "choose kernel" not in str(caught.value)


def test_without_a_library_the_reason_is_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["ksmm.implementations.kernel"], "load", lambda: (None, "run: make it"))
    functional._choices.cache_clear()
    for dtype in (torch.float32, torch.bfloat16):
        with pytest.raises(ValueError, match="run: make it; choose another one, or auto"):
            chosen(dtype)
    functional._choices.cache_clear()
