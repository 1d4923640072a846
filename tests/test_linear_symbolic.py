"""Sizes that are symbolic outside torch.compile: make_fx, and fake tensors with a ShapeEnv."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

import ksmm
from tests.test_linear import CHAIN, COMBINATIONS, call


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize(("name", "layout"), COMBINATIONS)
def test_products_are_read_by_make_fx(name: str, layout: str, batch: int) -> None:
    x, weight = torch.randn(batch, 16), torch.randn(CHAIN[1])
    x = x if layout == "batch_first" else x.T.contiguous()
    read = make_fx(lambda x, weight: ksmm.ks_matmul(x, weight, layout, name), tracing_mode="symbolic")(x, weight)
    torch.testing.assert_close(read(x, weight), ksmm.ks_matmul(x, weight, layout, name))


@pytest.mark.parametrize("chain", [CHAIN, CHAIN[1:]])
@pytest.mark.parametrize("is_frozen", [False, True])
@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
def test_layers_take_a_symbolic_batch(layout: str, is_frozen: bool, chain: list) -> None:
    layer = ksmm.KSLinear(chain, layout=layout)
    layer = layer.freeze() if is_frozen else layer
    fake = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    sizes = [DimDynamic.DYNAMIC, DimDynamic.STATIC]
    context = StatelessSymbolicContext(dynamic_sizes=sizes if layout == "batch_first" else sizes[::-1])
    x = torch.randn((5, 16) if layout == "batch_first" else (16, 5))
    with fake, torch.no_grad():
        y = layer(fake.from_tensor(x, symbolic_context=context))
    batch, features = y.shape if layout == "batch_first" else reversed(y.shape)
    assert isinstance(batch, torch.SymInt) and features == layer.out_features
    with torch.no_grad():
        read = make_fx(layer, tracing_mode="symbolic", _allow_non_fake_inputs=True)(x)
        more = torch.cat([x, x], dim=0 if layout == "batch_first" else 1)
        torch.testing.assert_close(read(more), layer(more), rtol=1e-4, atol=1e-5)
    assert call(layer, torch.randn(3, 16), layout).shape == (3, layer.out_features)
