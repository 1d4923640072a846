"""KSLinear.freeze where "auto" takes another implementation for some batch sizes."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import ksmm
from ksmm import functional
from ksmm.implementations import get_implementation
from ksmm.implementations.bmm import Bmm
from ksmm.implementations.dense import Dense
from ksmm.tuning import Choice
from tests.test_linear import CHAIN, dense_twin

SMALL, LARGE = 4, 20
CHOICES = (Choice(16, 31, "dense", None), Choice(4, 7, "bmm", None))


@pytest.fixture(autouse=True)
def tuned(monkeypatch: pytest.MonkeyPatch):
    """Every pattern is one for which "dense" was the fastest for 16 to 31 rows, and "bmm" for 4 to 7."""
    monkeypatch.setattr(functional, "known", lambda *problem: CHOICES)
    functional._choices.cache_clear()
    yield
    functional._choices.cache_clear()


def recorded(monkeypatch: pytest.MonkeyPatch, method: str) -> list[str]:
    """The implementations whose method is called, as it happens."""
    seen: list[str] = []
    for kind in (Bmm, Dense):
        own = getattr(kind, method)

        def recording(self, *operands, original=own):
            seen.append(self.name)
            return original(self, *operands)

        monkeypatch.setattr(kind, method, recording)
    return seen


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The implementations that pack a weight, as it happens."""
    return recorded(monkeypatch, "pack")


@pytest.fixture
def multiplied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The implementations that multiply, as it happens."""
    return recorded(monkeypatch, "matmul")


@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
def test_each_batch_size_has_its_implementation(layout: str, packed: list[str], multiplied: list[str]) -> None:
    layer = ksmm.KSLinear(CHAIN, layout=layout).freeze()
    assert packed == ["dense"] * 2
    other = functional.choices(CHAIN[0], torch.float32, layout, "cpu", "auto")[-1][2]
    with torch.no_grad():
        for size, names in ((LARGE, ["dense"]), (SMALL, ["bmm"]), (1, [other]), (SMALL, ["bmm"]), (0, [])):
            x = torch.randn(size, layer.in_features)
            multiplied.clear()
            y = layer(x) if layout == "batch_first" else layer(x.T).T
            torch.testing.assert_close(y, dense_twin(layer)(x), rtol=1e-4, atol=1e-5)
            assert multiplied == [name for name in names * 2 if name in ("bmm", "dense")]
    assert packed.count("bmm") == packed.count("dense") == 2  # remembered


def test_what_is_packed_later_is_dropped_with_the_rest(packed: list[str]) -> None:
    layer = ksmm.KSLinear(CHAIN).freeze()
    x = torch.randn(SMALL, layer.in_features)
    with torch.inference_mode():
        layer(x)
    for change in (lambda: layer.freeze(), lambda: layer.unfreeze().freeze()):
        with torch.no_grad():
            layer.factors[0].mul_(2)
            change()
            torch.testing.assert_close(layer(x), dense_twin(layer)(x), rtol=1e-4, atol=1e-5)
    assert packed.count("bmm") == 6
    assert layer.unfreeze()._frozen is None


def test_a_changed_weight_is_not_packed_later(packed: list[str]) -> None:
    layer = ksmm.KSLinear(CHAIN).freeze()
    x = torch.randn(SMALL, layer.in_features)
    with torch.no_grad():
        layer.factors[1].mul_(3)
        torch.testing.assert_close(layer(x), dense_twin(layer)(x), rtol=1e-4, atol=1e-5)


def test_what_is_packed_in_inference_mode_serves_outside_of_it() -> None:
    layer = ksmm.KSLinear(CHAIN).freeze()
    with torch.inference_mode():
        layer(torch.randn(SMALL, layer.in_features))
    assert not any(factor._packed["bmm"].data.is_inference() for factor in layer._frozen.factors)


def test_of_weights_made_in_inference_mode() -> None:
    with torch.inference_mode():
        layer = ksmm.KSLinear(CHAIN).freeze()
    x = torch.randn(SMALL, layer.in_features)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), x @ layer.to_dense().T + layer.bias, rtol=1e-4, atol=1e-5)


def test_copies_are_not_frozen_and_multiply_alike() -> None:
    layer = ksmm.KSLinear(CHAIN).freeze()
    x = torch.randn(SMALL, layer.in_features)
    with torch.no_grad():
        expected = layer(x)
        for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert twin._frozen is None
            torch.testing.assert_close(twin(x), expected)
            torch.testing.assert_close(twin.freeze()(x), expected)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_graphs_serve_every_batch_size(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = ksmm.KSLinear(CHAIN).freeze()
    x, batch = torch.randn(size, layer.in_features), torch.export.Dim("batch", min=2, max=1000)
    with torch.no_grad():
        expected = layer(x)
        monkeypatch.setattr(Bmm, "matmul", None)
        torch.compiler.reset()
        compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="eager")
        exported = torch.export.export(layer, (x,), dynamic_shapes=({0: batch},), strict=True).module()
        traced = torch.jit.trace(layer, (x,), check_trace=False)  # which would call the layer itself
        for graph in (compiled, exported, traced):
            torch.testing.assert_close(graph(x), expected, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(graph(x[:2]), expected[:2], rtol=1e-4, atol=1e-5)


def test_a_single_choice_packs_once(packed: list[str]) -> None:
    layer = ksmm.KSLinear(CHAIN, implementation="bmm").freeze()
    with torch.no_grad():
        for size in (1, SMALL, LARGE):
            layer(torch.randn(size, layer.in_features))
    assert packed == ["bmm"] * 2


def test_calls_that_pack_each_time_leave_dense_out(multiplied: list[str]) -> None:
    layer = ksmm.KSLinear(CHAIN)
    layer(torch.randn(LARGE, layer.in_features))
    assert "dense" not in multiplied
    layer(torch.randn(SMALL, layer.in_features))
    assert multiplied[-2:] == ["bmm"] * 2


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_nothing_is_packed_while_a_cuda_graph_is_captured(packed: list[str]) -> None:
    layer = ksmm.KSLinear(CHAIN, device="cuda").freeze()
    x = torch.randn(SMALL, layer.in_features, device="cuda")
    for already in (False, True):
        with torch.no_grad():
            expected = x @ layer.to_dense().T + layer.bias
            stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                layer(torch.randn(LARGE, layer.in_features, device="cuda"))  # cuBLAS, before it is captured
            torch.cuda.synchronize()
            with torch.cuda.graph(graph, stream=stream):
                y = layer(x)
            assert packed.count("bmm") == (2 if already else 0)
            graph.replay()
            torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
            layer(x)  # which packs


def test_two_factors_of_the_kernel_are_one_call_where_both_are(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = get_implementation("kernel")
    if kernel.supports(ksmm.Problem(ksmm.Pattern(*CHAIN[0]), 1, torch.float32, "batch_first")):
        pytest.skip("the kernel library is not built")
    chains = []
    original = type(kernel).matmul_chain
    monkeypatch.setattr(
        type(kernel), "matmul_chain", lambda self, *operands: chains.append(1) or original(self, *operands)
    )
    layer = ksmm.KSLinear(CHAIN).freeze()
    with torch.no_grad():
        for size, calls in ((LARGE, 0), (SMALL, 0), (2, 1), (40, 2)):
            x = torch.randn(size, layer.in_features)
            torch.testing.assert_close(layer(x), dense_twin(layer)(x), rtol=1e-4, atol=1e-5)
            assert len(chains) == calls
