"""Two factors of a layer that is not frozen, in one call where no gradient is wanted."""

from __future__ import annotations

import contextlib

import pytest
import torch

import ksmm
from ksmm.implementations.kernel import Kernel

pytestmark = pytest.mark.usefixtures("kernel_library")

CHAIN = [(1, 24, 16, 4), (4, 16, 24, 1)]


@pytest.fixture
def calls(monkeypatch) -> list[torch.Size]:
    """The shape of x at each call of two factors."""
    seen = []
    together = Kernel.matmul_chain

    def recorded(self, inner, outer, x, *more):
        seen.append(x.shape)
        return together(self, inner, outer, x, *more)

    monkeypatch.setattr(Kernel, "matmul_chain", recorded)
    return seen


def layer(dtype: torch.dtype, device: str, chain: list = CHAIN, **more) -> ksmm.KSLinear:
    """A layer whose factors are multiplied by the kernel."""
    return ksmm.KSLinear(chain, **{"implementation": "kernel", "dtype": dtype, "device": device, **more})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(7,), (1,), (), (2, 3)], ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_both_products_are_one_call_without_gradients(calls, device, dtype, shape, bias) -> None:
    linear = layer(dtype, device, bias=bias)
    x = torch.randn(*shape, linear.in_features, dtype=dtype, device=device)
    with torch.no_grad():
        y = linear(x)
    rows = max(1, torch.Size(shape).numel())
    assert calls == [(rows, linear.in_features)]
    assert y.shape == (*shape, linear.out_features)
    expected = x.double() @ linear.to_dense().double().T + (linear.bias.double() if bias else 0)
    torch.testing.assert_close(y.double(), expected, rtol=3e-2, atol=3e-2)
    frozen = linear.freeze()
    with torch.no_grad():
        assert torch.equal(frozen(x), y)


def test_a_layer_whose_weights_require_no_gradient_in_grad_mode(calls, device) -> None:
    linear = layer(torch.bfloat16, device).requires_grad_(False)
    linear(torch.randn(3, linear.in_features, dtype=torch.bfloat16, device=device))
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("more", "context"),
    [
        ({}, contextlib.nullcontext),
        ({"dtype": torch.float32}, torch.no_grad),
        ({"layout": "batch_last"}, torch.no_grad),
        ({"implementation": "bmm"}, torch.no_grad),
        ({"chain": [*CHAIN, (1, 96, 64, 1)]}, torch.no_grad),
        ({"chain": CHAIN[:1]}, torch.no_grad),
    ],
    ids=["gradients", "float32", "batch_last", "bmm", "three factors", "one factor"],
)
def test_all_others_are_multiplied_one_by_one(calls, device, more, context) -> None:
    linear = layer(**{"dtype": torch.bfloat16, "device": device, **more})
    size = linear.in_features
    shape = (size, 5) if linear.layout == "batch_last" else (5, size)
    with context():
        linear(torch.randn(*shape, dtype=linear.factors[0].dtype, device=device))
    assert not calls


def test_gradients_of_x_alone_are_recorded(calls, device) -> None:
    linear = layer(torch.bfloat16, device).requires_grad_(False)
    x = torch.randn(3, linear.in_features, dtype=torch.bfloat16, device=device, requires_grad=True)
    linear(x).sum().backward()
    assert not calls
    assert x.grad is not None


def test_autocast_transforms_empty_batches_and_graphs(calls, device) -> None:
    linear = layer(torch.bfloat16, device)
    x = torch.randn(3, linear.in_features, dtype=torch.bfloat16, device=device)
    with torch.no_grad():
        with torch.autocast(device, torch.bfloat16):
            linear(x)
        torch.func.vmap(linear)(x)
        assert linear(x[:0]).shape == (0, linear.out_features)
        torch.compile(linear, backend="eager", fullgraph=True)(x)
        assert not calls


def test_what_does_not_fit_is_said_as_ever(calls, device) -> None:
    linear = layer(torch.bfloat16, device)
    with torch.no_grad():
        with pytest.raises(ValueError, match=r"x has shape \(3, 97\)"):
            linear(torch.randn(3, linear.in_features + 1, dtype=torch.bfloat16, device=device))
        with pytest.raises(ValueError, match="dtype"):
            linear(torch.randn(3, linear.in_features, dtype=torch.float16, device=device))
    assert not calls
