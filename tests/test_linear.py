"""KSLinear in the place of nn.Linear."""

from __future__ import annotations

import copy
import io
import math
import pickle
import re
import warnings

import pytest
import torch
import torch.fx
from torch import distributed, nn
from torch.nn.utils import prune

import ksmm
from ksmm.implementations import get_implementation
from tests.conftest import TOLERANCES

CHAIN = [(1, 12, 6, 2), (2, 6, 8, 1)]


def supported(name: str, layout: str, device: str = "cpu") -> bool:
    return all(
        get_implementation(name).supports(ksmm.Problem(ksmm.Pattern(*p), 1, torch.float32, layout, device)) is None
        for p in CHAIN
    )


COMBINATIONS = [
    (name, layout)
    for name in ("auto", *ksmm.implementations())
    for layout in ksmm.LAYOUTS
    if name == "auto" or supported(name, layout)
]


def dense_twin(layer: ksmm.KSLinear) -> nn.Linear:
    linear = nn.Linear(layer.in_features, layer.out_features, bias=layer.bias is not None).to(layer.factors[0])
    with torch.no_grad():
        linear.weight.copy_(layer.to_dense())
        if layer.bias is not None:
            linear.bias.copy_(layer.bias)
    return linear


def call(layer: nn.Module, x: torch.Tensor, layout: str) -> torch.Tensor:
    """The layer on x of shape (..., features), whatever its layout."""
    return layer(x) if layout == "batch_first" else layer(x.movedim(-1, 0)).movedim(0, -1)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(), (7,), (2, 3), (2, 3, 4), (0,)])
@pytest.mark.parametrize(("name", "layout"), COMBINATIONS)
def test_equals_the_dense_layer(name: str, layout: str, shape: tuple[int, ...], bias: bool) -> None:
    layer = ksmm.KSLinear(CHAIN, bias=bias, layout=layout, implementation=name)
    x = torch.randn(*shape, layer.in_features)
    torch.testing.assert_close(call(layer, x, layout), dense_twin(layer)(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "layout"), COMBINATIONS)
def test_gradients_equal_those_of_the_dense_product(name: str, layout: str) -> None:
    layer = ksmm.KSLinear(CHAIN, layout=layout, implementation=name)
    x = torch.randn(5, 3, layer.in_features, requires_grad=True)
    y = call(layer, x, layout)
    y_gradient = torch.randn_like(y)
    leaves = [x, *layer.parameters()]
    gradients = torch.autograd.grad(y, leaves, y_gradient)
    expected = torch.autograd.grad(nn.functional.linear(x, layer.to_dense(), layer.bias), leaves, y_gradient)
    for gradient, reference in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("chain", [CHAIN, [(1, 8, 6, 1)], [(3, 8, 4, 1)], [(1, 4, 8, 4)]])
@pytest.mark.parametrize(("name", "layout"), COMBINATIONS)
def test_gradients_have_the_strides_of_their_parameters(
    name: str, layout: str, chain: list[tuple[int, int, int, int]]
) -> None:
    layer = ksmm.KSLinear(chain, layout=layout, implementation=name)
    call(layer, torch.randn(5, layer.in_features), layout).square().sum().backward()
    for parameter in layer.parameters():  # DistributedDataParallel compares them, those of single elements too
        assert parameter.grad.stride() == parameter.stride()


@pytest.mark.parametrize(("name", "layout"), COMBINATIONS)
def test_compiles_without_graph_breaks(name: str, layout: str) -> None:
    layer = ksmm.KSLinear(CHAIN, layout=layout, implementation=name)
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for batch in (4, 9):
        x = torch.randn(batch, layer.in_features, requires_grad=True)
        y, y_compiled = call(layer, x, layout), call(compiled, x, layout)
        torch.testing.assert_close(y_compiled, y)
        (gradient,) = torch.autograd.grad(y.square().sum(), x)
        (gradient_compiled,) = torch.autograd.grad(y_compiled.square().sum(), x)
        torch.testing.assert_close(gradient_compiled, gradient)


@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
def test_the_kernel_compiles_without_graph_breaks_when_frozen(layout: str, device: str) -> None:
    if not supported("kernel", layout, device):
        pytest.skip("the kernel library is not built; run: python -m ksmm build")
    layer = ksmm.KSLinear(CHAIN, layout=layout, implementation="kernel", device=device).freeze()
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = torch.randn(4, layer.in_features, device=device)
    with torch.no_grad():
        torch.testing.assert_close(call(compiled, x, layout), call(layer, x, layout))
        layer.factors[0] = nn.Parameter(torch.randn_like(layer.factors[0]))
        torch.testing.assert_close(call(compiled, x, layout), call(layer, x, layout))


def test_compiles_with_inductor() -> None:
    layer = ksmm.KSLinear(CHAIN)
    torch.compiler.reset()
    x = torch.randn(6, layer.in_features)
    torch.testing.assert_close(torch.compile(layer, fullgraph=True)(x), layer(x))


@pytest.mark.parametrize("is_frozen", [False, True])
@pytest.mark.parametrize(("name", "layout"), COMBINATIONS)
def test_is_read_by_fx(name: str, layout: str, is_frozen: bool) -> None:
    layer = ksmm.KSLinear(CHAIN, layout=layout, implementation=name)
    x = torch.randn(5, layer.in_features)
    with torch.set_grad_enabled(not is_frozen):
        if is_frozen:
            layer.freeze()
        read = torch.fx.symbolic_trace(nn.Sequential(layer))
        products = [node for node in read.graph.nodes if node.target is ksmm.ks_matmul]
        assert len(products) == len(CHAIN)
        again = pickle.loads(pickle.dumps(read))
        torch.testing.assert_close(call(again, x, layout), call(layer, x, layout))
        with torch.no_grad():  # the parameters are the layer's own
            layer.factors[0].mul_(2)
        torch.testing.assert_close(call(read, x, layout), call(layer, x, layout))


def test_one_state_for_all_implementations_and_layouts() -> None:
    reference = ksmm.KSLinear(CHAIN)
    state = reference.state_dict()
    assert {key: tuple(value.shape) for key, value in state.items()} == {
        "factors.0": (1, 12, 6, 2),
        "factors.1": (2, 6, 8, 1),
        "bias": (24,),
    }
    x = torch.randn(5, reference.in_features)
    for name, layout in COMBINATIONS:
        layer = ksmm.KSLinear(CHAIN, layout=layout, implementation=name)
        layer.load_state_dict(state)
        torch.testing.assert_close(call(layer, x, layout), reference(x), rtol=1e-4, atol=1e-5)


def test_initial_values_are_uniform_within_the_bound() -> None:
    layer = ksmm.KSLinear([(4, 64, 32, 4), (2, 64, 50, 4)])
    for pattern, weight in zip(layer.chain, layer.factors, strict=True):
        bound = 1 / math.sqrt(pattern.c)
        assert weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
        assert weight.mean().item() == pytest.approx(0, abs=0.05 * bound)
    assert layer.bias.abs().max() <= 1 / math.sqrt(32)


def test_device_and_dtype_arguments() -> None:
    layer = ksmm.KSLinear(CHAIN, device="meta", dtype=torch.bfloat16)
    assert {(p.device.type, p.dtype) for p in layer.parameters()} == {("meta", torch.bfloat16)}
    x = torch.empty(5, layer.in_features, device="meta", dtype=torch.bfloat16)
    with torch.no_grad():
        assert layer(x).shape == layer.freeze()(x).shape == (5, layer.out_features)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_to(dtype: torch.dtype, device: str) -> None:
    layer = ksmm.KSLinear(CHAIN).freeze().to(device, dtype)
    x = torch.randn(5, layer.in_features, device=device).to(dtype)
    with torch.no_grad():
        y = layer(x)
    assert (y.dtype, y.device.type) == (dtype, device)
    torch.testing.assert_close(y.float(), dense_twin(layer)(x).float(), rtol=0, atol=20 * TOLERANCES[dtype])


def test_autocast_and_its_gradients() -> None:
    layer = ksmm.KSLinear(CHAIN)
    x = torch.randn(5, layer.in_features, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    assert all(p.grad.dtype == torch.float32 for p in layer.parameters())


@pytest.mark.parametrize(("name", "layout"), COMBINATIONS)
def test_copies_and_pickles(name: str, layout: str) -> None:
    layer = ksmm.KSLinear(CHAIN, layout=layout, implementation=name).freeze()
    x = torch.randn(5, layer.in_features)
    buffer = io.BytesIO()
    torch.save(layer, buffer)
    buffer.seek(0)
    with torch.no_grad():
        for twin in (copy.deepcopy(layer), torch.load(buffer, weights_only=False)):
            torch.testing.assert_close(call(twin, x, layout), call(layer, x, layout))
            twin.factors[0].mul_(2)
            assert not torch.equal(twin.factors[0], layer.factors[0])


def test_trains_like_any_module() -> None:
    model = nn.Sequential(ksmm.KSLinear([(1, 4, 4, 4), (4, 4, 4, 1)]), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    x = torch.randn(64, 16)
    target = x[:, :1]
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.skipif(not (distributed.is_available() and distributed.is_gloo_available()), reason="no gloo")
def test_trains_in_distributed_data_parallel() -> None:
    x = torch.randn(4, 96)
    layer = ksmm.KSLinear([(1, 64, 48, 2), (2, 48, 48, 1)])
    (expected,) = torch.autograd.grad(layer(x).square().sum(), [layer.factors[1]])
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # gradients in an order that it would have to copy
            nn.parallel.DistributedDataParallel(layer)(x).square().sum().backward()
    finally:
        distributed.destroy_process_group()
    torch.testing.assert_close(layer.factors[1].grad, expected)


def test_says_what_it_is() -> None:
    text = repr(ksmm.KSLinear(CHAIN, layout="batch_last", implementation="bmm", bias=False))
    for part in ("in_features=16", "out_features=24", "(1,12,6,2) · (2,6,8,1)", "bias=False", "batch_last", "bmm"):
        assert part in text


def test_who_reads_the_weight_is_told_what_to_do() -> None:
    layer = ksmm.KSLinear(CHAIN)
    with pytest.raises(AttributeError, match=r"no weight: .*to_dense\(\).*exclude= of ksmm\.replace_linear"):
        _ = layer.weight
    assert not hasattr(layer, "weight") and getattr(layer, "weight", None) is None
    with pytest.raises(AttributeError, match="no attribute 'wait'"):
        _ = layer.wait


@pytest.mark.parametrize("weight", [nn.Embedding(16, 24).weight, torch.zeros(24, 16), None], ids=type)
def test_who_ties_the_weight_is_told_what_to_do(weight: torch.Tensor | None) -> None:
    layer = ksmm.KSLinear(CHAIN)
    with pytest.raises(AttributeError, match=r"no weight: .*to_dense\(\).*exclude= of ksmm\.replace_linear"):
        layer.weight = weight
    assert set(layer.state_dict()) == {"factors.0", "factors.1", "bias"}


def test_factors_that_are_not_called_are_refused() -> None:
    layer, other = ksmm.KSLinear(CHAIN), ksmm.KSLinear(CHAIN)
    with pytest.raises(TypeError, match=r"factors is a ParameterList; it must be a ksmm\.linear\.Factors"):
        layer.factors = nn.ParameterList(list(other.factors))
    layer.factors = type(layer.factors)(list(other.factors))
    x = torch.randn(5, layer.in_features)
    torch.testing.assert_close(layer(x) - layer.bias, other(x) - other.bias)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="do not chain"):
        ksmm.KSLinear([(1, 4, 6, 2), (1, 4, 6, 2)])
    with pytest.raises(ValueError, match="unknown layout 'first'"):
        ksmm.KSLinear(CHAIN, layout="first")
    with pytest.raises(ValueError, match="unknown implementation 'fast'"):
        ksmm.KSLinear(CHAIN, implementation="fast")
    with pytest.raises(TypeError, match=r"implementation is \['bmm'\] \(list\); it must be a name: bmm, .* or auto"):
        ksmm.KSLinear(CHAIN, implementation=["bmm"])
    for dtype, named in [(torch.int8, "int8"), (torch.complex64, "complex64"), ("float32", "'float32'")]:
        with pytest.raises(ValueError, match=f"dtype is {named}; choose one of torch.float32, .*torch.float64"):
            ksmm.KSLinear(CHAIN, dtype=dtype)


def test_pruning_masks_what_is_multiplied() -> None:
    layer = ksmm.KSLinear(CHAIN, bias=False)
    x = torch.randn(5, layer.in_features)
    prune.l1_unstructured(layer.factors, "0", 0.5)
    for scale in (1, 3):  # hooks run at each call
        with torch.no_grad():
            layer.factors.get_parameter("0_orig").mul_(scale)
        layer(x).sum().backward()
        torch.testing.assert_close(layer(x), dense_twin(layer)(x), rtol=1e-4, atol=1e-5)
    assert (layer.factors[0] == 0).sum() == layer.factors[0].numel() // 2


@pytest.mark.parametrize(
    ("name", "layout", "is_frozen"),
    [(*one, False) for one in COMBINATIONS]
    + [(*one, True) for one in COMBINATIONS if one[0] == "auto" or get_implementation(one[0]).differentiable],
)
def test_a_batch_that_the_data_make(name: str, layout: str, is_frozen: bool) -> None:
    """layer(x[mask]), as in mixtures of experts: exported and compiled, with rows and without."""

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = ksmm.KSLinear(CHAIN, layout=layout, implementation=name)

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return call(self.layer, x[mask], layout)

    model = Masked()
    if is_frozen:
        model.layer.freeze()
    x, mask = torch.randn(9, model.layer.in_features), torch.rand(9) < 0.5
    mask[:2] = True
    torch.compiler.reset()
    with torch.no_grad():
        exported = [torch.export.export(model, (x, mask), strict=strict).module() for strict in (False, True)]
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
            for some in (mask, torch.zeros_like(mask)):
                for graph in (*exported, compiled):
                    torch.testing.assert_close(graph(x, some), model(x, some))


@pytest.mark.parametrize("chain", [(1, 12, 6, 2), ksmm.Pattern(1, 12, 6, 2), 16, None, "1,12,6,2", ["1,12,6,2"], [5]])
def test_what_is_no_list_of_patterns_is_named(chain: object) -> None:
    message = f"the chain is {re.escape(repr(chain))}; it must be a list of patterns .* such as .*default_chain"
    with pytest.raises(TypeError, match=message):
        ksmm.KSLinear(chain)


def test_factors_of_other_lengths_are_named() -> None:
    with pytest.raises(TypeError, match=r"factor 2 of the chain is \(6, 8, 1\); it must be four integers"):
        ksmm.KSLinear([(1, 12, 6, 2), [6, 8, 1]])


def test_any_iterable_of_patterns_makes_a_chain() -> None:
    for chain in (iter(CHAIN), [list(entries) for entries in CHAIN], torch.tensor(CHAIN).tolist(), ksmm.Chain(CHAIN)):
        assert ksmm.KSLinear(chain).chain == ksmm.Chain(CHAIN)
