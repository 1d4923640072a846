"""KSLinear.freeze: which calls and assignments end it, since the weights may be others behind them."""

from __future__ import annotations

import copy
import gc
import weakref

import numpy
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

import ksmm
from tests.test_linear import CHAIN, dense_twin
from tests.test_linear_frozen import Substituted

FUSED = [torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD, torch.optim.Adagrad]


def assert_right(layer: ksmm.KSLinear, x: torch.Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(layer(x), dense_twin(layer)(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", FUSED)
@pytest.mark.parametrize("chain", [CHAIN, CHAIN[:1]])
def test_a_step_of_a_fused_optimizer(kind: type[torch.optim.Optimizer], chain: list) -> None:
    layer = ksmm.KSLinear(chain).eval().freeze()
    x = torch.randn(5, layer.in_features)
    optimizer = kind(layer.parameters(), lr=0.5, fused=True)
    layer(x).square().sum().backward()
    version = layer.factors[0]._version
    optimizer.step()
    assert layer.factors[0]._version == version  # else nothing is tested here
    assert_right(layer, x)


def test_a_step_while_a_factor_was_parametrized() -> None:
    layer = ksmm.KSLinear(CHAIN[:1]).freeze()
    x = torch.randn(5, layer.in_features)
    parametrize.register_parametrization(layer.factors, "0", nn.Identity())
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5, fused=True)
    layer(x).square().sum().backward()
    optimizer.step()
    parametrize.remove_parametrizations(layer.factors, "0", leave_parametrized=False)
    assert_right(layer, x)


def test_one_factor_that_learns_is_enough() -> None:
    layer = ksmm.KSLinear(CHAIN).requires_grad_(False).freeze()
    x = torch.randn(5, layer.in_features)
    layer(x)
    assert layer._frozen is not None
    layer.factors[1].requires_grad_()
    layer(x)
    assert layer._frozen is None


def test_weights_that_do_not_learn_stay_frozen() -> None:
    """As below a LoRA adapter: gradients of the input and of the bias are no reason."""
    layer = ksmm.KSLinear(CHAIN)
    layer.factors.requires_grad_(False)
    frozen = layer.freeze()._frozen
    x = torch.randn(5, layer.in_features, requires_grad=True)
    layer(x).sum().backward()
    assert layer._frozen is frozen and x.grad is not None and layer.bias.grad is not None
    assert_right(layer, x.detach())


@pytest.mark.parametrize("learns", [True, False])
def test_other_tensors_leave_it_frozen(learns: bool) -> None:
    layer = ksmm.KSLinear(CHAIN)
    frozen = layer.freeze()._frozen
    x = torch.randn(5, layer.in_features)
    state = {key: torch.randn_like(value).requires_grad_(learns) for key, value in layer.state_dict().items()}
    y = Substituted(layer, state)(x)
    assert layer._frozen is frozen and y.requires_grad == learns
    with torch.no_grad():
        Substituted(layer, state)(x)
    assert layer._frozen is frozen
    assert_right(layer, x)


@pytest.mark.parametrize("learns", [True, False])
def test_data_that_was_replaced_and_put_back(learns: bool) -> None:
    one, other = torch.randn(2, *CHAIN[0])
    layer = ksmm.KSLinear(CHAIN[:1]).requires_grad_(learns)
    layer.factors[0].data = one
    layer.freeze()
    x = torch.randn(5, layer.in_features)
    layer.factors[0].data = other
    assert_right(layer, x)
    assert layer._frozen is None
    one.normal_()
    layer.factors[0].data = one
    assert_right(layer, x)


def test_the_memory_of_a_frozen_weight_is_held_until_a_call_finds_another() -> None:
    """So that nobody else gets its address, by which the call knows it."""
    memory = numpy.ones(CHAIN[0], numpy.float32)
    layer, held = ksmm.KSLinear(CHAIN, implementation="bmm"), weakref.ref(memory)
    layer.factors[0].data = torch.from_numpy(memory)
    layer.freeze()
    del memory
    layer.factors[0].data = torch.randn(CHAIN[0])
    gc.collect()
    assert held() is not None
    assert_right(layer, torch.randn(5, layer.in_features))
    gc.collect()
    assert held() is None


def test_what_a_cuda_graph_may_read_is_held_until_the_layer_is_frozen_again() -> None:
    layer = ksmm.KSLinear(CHAIN)
    for end in (layer.freeze, layer.unfreeze, layer.train):
        frozen = layer.freeze()._frozen
        frozen.device = torch.device("cuda")  # without one
        layer(torch.randn(5, layer.in_features))
        assert layer._frozen is None and layer._ended is frozen
        assert copy.deepcopy(layer)._ended is None
        end()
        assert layer._ended is None


def test_another_layout() -> None:
    layer = ksmm.KSLinear([(1, 8, 8, 1)], bias=False).freeze()
    layer.layout = "batch_last"
    x = torch.randn(8, 8)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), layer.to_dense() @ x)
        torch.testing.assert_close(layer.freeze()(x), layer.to_dense() @ x)


def test_another_implementation() -> None:
    layer = ksmm.KSLinear(CHAIN, implementation="bmm").freeze()
    layer.implementation = "bmm_strided"
    with torch.no_grad(), pytest.raises(ValueError, match="'bmm_strided' cannot multiply pattern 1,12,6,2"):
        layer(torch.randn(5, layer.in_features))


@pytest.mark.parametrize(("name", "value"), [("layout", "first"), ("implementation", "fast")])
def test_what_is_assigned_is_checked_and_ends_nothing_where_it_is_refused(name: str, value: str) -> None:
    layer = ksmm.KSLinear(CHAIN).freeze()
    before, frozen = getattr(layer, name), layer._frozen
    with pytest.raises(ValueError, match=f"unknown {name} '{value}'; choose one of"):
        setattr(layer, name, value)
    assert getattr(layer, name) == before and layer._frozen is frozen
