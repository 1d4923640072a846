"""KSLinear.freeze: the weights packed once, for inference, and what ends that."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import ksmm
from tests.test_linear import CHAIN, COMBINATIONS, call, dense_twin


class Substituted(nn.Module):
    """A layer with other parameters, by torch.func.functional_call."""

    def __init__(self, layer: nn.Module, state: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.layer, self.state = [layer], state

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(self.layer[0], self.state, (x,))


@pytest.mark.parametrize(("name", "layout"), COMBINATIONS)
def test_same_result(name: str, layout: str) -> None:
    layer = ksmm.KSLinear(CHAIN, layout=layout, implementation=name)
    x = torch.randn(3, 5, layer.in_features)
    expected = call(layer, x, layout)
    with torch.no_grad():
        torch.testing.assert_close(call(layer.freeze(), x, layout), expected)
    with torch.inference_mode():
        torch.testing.assert_close(call(layer, x, layout), expected)


def test_a_hook_that_makes_other_weights_is_not_left_out() -> None:
    layer = ksmm.KSLinear(CHAIN, bias=False)
    x = torch.randn(5, layer.in_features)
    layer.factors.register_forward_hook(lambda module, inputs, weights: [2 * weight for weight in weights])
    with torch.no_grad():
        expected = dense_twin(layer)(x) * 2 ** len(CHAIN)
        torch.testing.assert_close(layer.freeze()(x), expected, rtol=1e-4, atol=1e-4)


def test_gradients_still_flow() -> None:
    layer = ksmm.KSLinear(CHAIN).freeze()
    layer(torch.randn(5, layer.in_features)).sum().backward()
    assert layer.factors[0].grad is not None


@pytest.mark.parametrize("change", ["load_state_dict", "to", "train", "reset_parameters", "unfreeze"])
def test_ends_by_itself(change: str) -> None:
    layer = ksmm.KSLinear(CHAIN).freeze()
    x = torch.randn(5, layer.in_features)
    if change == "load_state_dict":
        layer.load_state_dict(ksmm.KSLinear(CHAIN).state_dict())
    else:
        {
            "to": lambda: layer.to(torch.float64).to(torch.float32),
            "train": layer.train,
            "reset_parameters": layer.reset_parameters,
            "unfreeze": layer.unfreeze,
        }[change]()
    with torch.no_grad():
        layer.factors[0].mul_(3)
        torch.testing.assert_close(layer(x), dense_twin(layer)(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "layout"), COMBINATIONS)
@pytest.mark.parametrize(
    "change",
    ["in place", "a part in place", "assigned", "functional_call", "parametrized", "optimizer", "data", "pruned"],
)
def test_other_weights_are_not_multiplied_as_the_packed_ones(change: str, name: str, layout: str) -> None:
    layer = ksmm.KSLinear(CHAIN, layout=layout, implementation=name).freeze()
    x, multiply = torch.randn(5, layer.in_features), layer
    with torch.no_grad():
        call(layer, x, layout)
        if change == "in place":
            layer.factors[1].mul_(3)
        elif change == "a part in place":
            layer.factors[0][0, 2] = 7.0
        elif change == "assigned":
            layer.factors[0] = nn.Parameter(torch.randn_like(layer.factors[0]))
        elif change == "parametrized":
            nn.utils.parametrize.register_parametrization(layer.factors, "1", nn.Softplus())
        elif change == "data":
            nn.utils.vector_to_parameters(torch.randn(sum(w.numel() for w in layer.factors)), layer.factors)
        elif change == "pruned":
            prune.l1_unstructured(layer.factors, "1", 0.5)
        elif change == "optimizer":
            for weight in layer.factors:
                weight.grad = torch.randn_like(weight)
            torch.optim.SGD(layer.factors.parameters(), lr=0.1).step()
        else:
            state = {key: torch.randn_like(value) for key, value in layer.state_dict().items()}
            multiply = Substituted(layer, state)
            layer = ksmm.KSLinear(CHAIN, layout=layout, implementation=name)
            layer.load_state_dict(state)
        torch.testing.assert_close(call(multiply, x, layout), dense_twin(layer)(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("change", ["pruned", "parametrized", "assigned", "none", "in place"])
@pytest.mark.parametrize("is_frozen", [False, True])
@pytest.mark.parametrize("chain", [CHAIN, CHAIN[:1]])
def test_the_bias_of_now_is_added(chain: list[tuple[int, int, int, int]], is_frozen: bool, change: str) -> None:
    layer = ksmm.KSLinear(chain)
    layer = layer.freeze() if is_frozen else layer
    x = torch.randn(5, layer.in_features)
    with torch.no_grad():
        layer(x)
        if change == "pruned":
            prune.l1_unstructured(layer, "bias", 0.5)
            assert (layer.bias == 0).sum() == layer.out_features // 2
        elif change == "parametrized":
            nn.utils.parametrize.register_parametrization(layer, "bias", nn.Softplus())
        elif change == "assigned":
            layer.bias = nn.Parameter(torch.randn(layer.out_features))
        elif change == "none":
            layer.bias = None
        else:
            layer.bias.mul_(3)
        expected = x @ layer.to_dense().T + (0 if layer.bias is None else layer.bias)
        torch.testing.assert_close(layer(x), expected, rtol=1e-4, atol=1e-5)


def test_takes_the_packed_weights_as_long_as_they_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = ksmm.KSLinear(CHAIN).freeze()
    x = torch.randn(5, layer.in_features)
    with torch.no_grad():
        expected = layer(x)
        monkeypatch.setattr(layer, "_multiply", None)
        layer.bias.add_(1)
        torch.testing.assert_close(layer(x), expected + 1)


def test_weights_made_in_inference_mode() -> None:
    with torch.inference_mode():
        layer = ksmm.KSLinear(CHAIN)
        x = torch.randn(5, layer.in_features)
        torch.testing.assert_close(layer.freeze()(x), dense_twin(layer)(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "layout"), COMBINATIONS)
def test_below_transforms_of_torch_func(name: str, layout: str) -> None:
    layer = ksmm.KSLinear(CHAIN, bias=False, layout=layout, implementation=name).freeze()
    x, tangent = torch.randn(2, 5, layer.in_features)
    with torch.no_grad():
        _, y_tangent = torch.func.jvp(lambda x: call(layer, x, layout), (x,), (tangent,))
        torch.testing.assert_close(y_tangent, dense_twin(layer)(tangent), rtol=1e-4, atol=1e-5)
        mapped = torch.func.vmap(lambda x: call(layer, x, layout))(x.unsqueeze(0))[0]
        torch.testing.assert_close(mapped, dense_twin(layer)(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "layout", "chain"),
    [
        ("auto", "batch_first", CHAIN),
        ("bmm", "batch_first", CHAIN),
        ("bmm_strided", "batch_last", CHAIN),
        ("bmm_strided", "batch_first", [(2, 6, 8, 1)]),
    ],
)
def test_is_exported_compiled_and_traced(name, layout, chain) -> None:
    layer = ksmm.KSLinear(chain, layout=layout, implementation=name).freeze()
    x = torch.randn((5, layer.in_features) if layout == "batch_first" else (layer.in_features, 5))
    with torch.no_grad():
        expected = layer(x)
        for strict in (False, True):
            torch.testing.assert_close(torch.export.export(layer, (x,), strict=strict).module()(x), expected)
        torch.compiler.reset()
        torch.testing.assert_close(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), expected)
        torch.testing.assert_close(torch.jit.trace(layer, (x,))(x), expected)


def test_bad_input_is_still_named() -> None:
    layer = ksmm.KSLinear(CHAIN).freeze()
    with torch.no_grad(), pytest.raises(ValueError, match=r"x has shape \(5, 15\)"):
        layer(torch.zeros(5, 15))


@pytest.mark.parametrize(("name", "layout"), COMBINATIONS)
@pytest.mark.parametrize(
    ("bias", "message"),
    [
        (torch.zeros(24, dtype=torch.float64), "bias is (float64|Double) on cpu and x (float32|Float)"),
        (torch.zeros(1), r"bias has shape [(\[]1"),
    ],
)
def test_a_bad_bias_is_still_named(bias: torch.Tensor, message: str, name: str, layout: str) -> None:
    layer = ksmm.KSLinear(CHAIN, layout=layout, implementation=name).freeze()
    layer.bias = nn.Parameter(bias)
    with torch.no_grad(), pytest.raises(ValueError, match=message):
        call(layer, torch.zeros(5, 16), layout)
