"""ks_matmul: shapes, gradients of every implementation, autocast, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import ksmm
from ksmm.functional import choices
from ksmm.implementations import get_implementation
from ksmm.reference import reference_matmul, relative_error, to_dense
from tests.conftest import TOLERANCES

PATTERN = ksmm.Pattern(2, 6, 4, 3)


def operands(
    pattern: ksmm.Pattern, layout: str, dtype: torch.dtype = torch.float32, device: str = "cpu", batch_size: int = 9
) -> tuple[torch.Tensor, torch.Tensor]:
    shape = ksmm.Problem(pattern, batch_size, dtype, layout).input_shape
    return (
        torch.randn(shape, dtype=dtype, device=device, requires_grad=True),
        torch.randn(pattern.weight_shape, dtype=dtype, device=device, requires_grad=True),
    )


def skip_unsupported(name: str, pattern: ksmm.Pattern, dtype: torch.dtype, layout: str, device: str) -> None:
    reason = get_implementation(name).supports(ksmm.Problem(pattern, 9, dtype, layout, device))
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 1, 3), (0,), (2, 0)])
def test_any_batch_shape_in_both_layouts(shape: tuple[int, ...]) -> None:
    weight = torch.randn(PATTERN.weight_shape)
    x = torch.randn(*shape, PATTERN.columns)
    expected = x @ to_dense(weight).T
    y = ksmm.ks_matmul(x, weight)
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)
    y = ksmm.ks_matmul(x.movedim(-1, 0), weight, "batch_last")
    torch.testing.assert_close(y, expected.movedim(-1, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("entries", [(2, 6, 4, 3), (1, 8, 8, 1), (3, 4, 8, 1), (1, 5, 5, 7)])
@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
@pytest.mark.parametrize("name", ksmm.implementations())
def test_gradients_against_float64(name: str, layout: str, entries: tuple[int, ...], device: str) -> None:
    pattern = ksmm.Pattern(*entries)
    skip_unsupported(name, pattern, torch.float32, layout, device)
    x, weight = operands(pattern, layout, device=device)
    y = ksmm.ks_matmul(x, weight, layout, name)
    y_gradient = torch.randn_like(y)
    gradients = torch.autograd.grad(y, (x, weight), y_gradient)
    x64, weight64 = x.detach().double().requires_grad_(), weight.detach().double().requires_grad_()
    expected = torch.autograd.grad(reference_matmul(weight64, x64, layout), (x64, weight64), y_gradient.double())
    for gradient, reference in zip(gradients, expected, strict=True):
        assert gradient.dtype == torch.float32
        assert relative_error(gradient, reference) < TOLERANCES[torch.float32]


@pytest.mark.parametrize("wanted", [0, 1], ids=["of x alone", "of the weight alone"])
@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
@pytest.mark.parametrize("name", ksmm.implementations())
def test_what_no_gradient_takes_may_change_and_is_not_kept(name: str, layout: str, wanted: int, device: str) -> None:
    """As in torch.mm: X is for the weight's gradient, and the weight for that of X."""
    pattern = ksmm.Pattern(2, 8, 8, 1)
    skip_unsupported(name, pattern, torch.float32, layout, device)
    both = operands(pattern, layout, device=device)
    expected = torch.autograd.grad(ksmm.ks_matmul(*both, layout, name).sum(), both[wanted])
    given = [operand.detach().clone() for operand in both]
    given[wanted].requires_grad_()
    y = ksmm.ks_matmul(*given, layout, name)
    with torch.no_grad():
        given[wanted].mul_(2)
    found = torch.autograd.grad(y.sum(), given[wanted])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
@pytest.mark.parametrize("name", sorted(set(ksmm.implementations()) - {"kernel"}))
def test_gradcheck_in_float64(name: str, layout: str) -> None:
    pattern = ksmm.Pattern(2, 4, 2, 1) if name == "bmm_strided" else ksmm.Pattern(2, 4, 2, 2)
    skip_unsupported(name, pattern, torch.float64, layout, "cpu")
    x, weight = operands(pattern, layout, torch.float64, batch_size=3)
    assert torch.autograd.gradcheck(lambda x, w: ksmm.ks_matmul(x, w, layout, name), (x, weight), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda x, w: ksmm.ks_matmul(x, w, layout, name), (x, weight))


@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
@pytest.mark.parametrize("name", ["auto", *ksmm.implementations()])
def test_forward_mode_gradients(name: str, layout: str, device: str) -> None:
    pattern = ksmm.Pattern(2, 4, 2, 1)
    if name != "auto":
        skip_unsupported(name, pattern, torch.float32, layout, device)
    primals, tangents = (
        [*(operand.detach() for operand in operands(pattern, layout, device=device)), torch.randn(8, device=device)]
        for _ in range(2)
    )
    _, tangent = torch.func.jvp(lambda x, w, bias: ksmm.ks_matmul(x, w, layout, name, bias), (*primals,), (*tangents,))
    (x, weight, _), (x_tangent, weight_tangent, bias_tangent) = primals, tangents
    expected = reference_matmul(weight, x_tangent, layout) + reference_matmul(weight_tangent, x, layout)
    expected += bias_tangent if layout == "batch_first" else bias_tangent[:, None]
    assert relative_error(tangent, expected) < TOLERANCES[torch.float32]


@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
@pytest.mark.parametrize("name", ["auto", *ksmm.implementations()])
def test_transforms_of_torch_func(name: str, layout: str, device: str) -> None:
    """Gradients, those of each sample by itself, and products of several weights, as PyTorch has them elsewhere."""
    pattern = ksmm.Pattern(2, 4, 2, 1)
    if name != "auto":
        skip_unsupported(name, pattern, torch.float32, layout, device)
    x, weight = (operand.detach() for operand in operands(pattern, layout, device=device))
    samples = 0 if layout == "batch_first" else 1

    def loss(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return ksmm.ks_matmul(x, weight, layout, name).square().sum()

    def expected(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        weight = weight.double().requires_grad_()
        return torch.autograd.grad(reference_matmul(weight, x.double(), layout).square().sum(), weight)[0]

    assert relative_error(torch.func.grad(loss)(weight, x), expected(weight, x)) < TOLERANCES[torch.float32]
    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(
        weight, x.unsqueeze(samples + 1).movedim(samples, 0)
    )
    of_each = torch.stack([expected(weight, sample) for sample in x.split(1, dim=samples)])
    assert relative_error(each, of_each) < TOLERANCES[torch.float32]
    torch.compiler.reset()  # else those of the other names count as its recompilations
    compiled = torch.compile(torch.func.grad(loss), backend="aot_eager", fullgraph=True)
    assert relative_error(compiled(weight, x), expected(weight, x)) < TOLERANCES[torch.float32]
    weights = torch.stack([weight, 2 * weight])
    several = torch.func.vmap(lambda weight: ksmm.ks_matmul(x, weight, layout, name))(weights)
    products = torch.stack([reference_matmul(one, x, layout) for one in weights])
    assert relative_error(several, products) < TOLERANCES[torch.float32]


@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
@pytest.mark.parametrize("name", ["auto", *ksmm.implementations()])
def test_gradients_of_several_outputs_at_a_time(name: str, layout: str, device: str) -> None:
    """By the older vmap, of which torch.func knows nothing."""
    pattern = ksmm.Pattern(2, 4, 2, 1)
    if name != "auto":
        skip_unsupported(name, pattern, torch.float32, layout, device)
    x, weight = operands(pattern, layout, device=device)
    y = ksmm.ks_matmul(x, weight, layout, name)
    several = torch.randn(3, *y.shape, device=device)
    together = torch.autograd.grad(y, (x, weight), several, is_grads_batched=True, retain_graph=True)
    each = [torch.autograd.grad(y, (x, weight), one, retain_graph=True) for one in several]
    for found, expected in zip(together, zip(*each, strict=True), strict=True):
        assert relative_error(found, torch.stack(expected).double()) < TOLERANCES[torch.float32]


@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
@pytest.mark.parametrize("name", sorted(set(ksmm.implementations()) - {"dense"}))  # which does more
def test_operations_are_counted_alike(name: str, layout: str, device: str) -> None:
    pattern = ksmm.Pattern(2, 4, 2, 1)
    skip_unsupported(name, pattern, torch.float32, layout, device)
    x, weight = operands(pattern, layout, device=device)
    with FlopCounterMode(display=False) as forward:
        y = ksmm.ks_matmul(x, weight, layout, name)
    with FlopCounterMode(display=False) as backward:
        y.sum().backward()
    assert forward.get_total_flops() == ksmm.Problem(pattern, 9, torch.float32, layout).operations
    assert backward.get_total_flops() == 2 * forward.get_total_flops()


def test_operations_of_each_operator_are_counted(kernel_library: None, device: str) -> None:
    inner, outer = (torch.randn(shape, device=device) for shape in ((2, 6, 8, 1), (1, 12, 6, 2)))
    x, of_y = torch.randn(5, 16, device=device), torch.randn(5, 12, device=device)
    calls = [
        (torch.ops.ksmm.ks_chain, (x, outer, inner, None, -1, -1, 0), 2 * 5 * (2 * 6 * 8 + 12 * 6 * 2)),
        (torch.ops.ksmm.weight_gradient, (x.T, of_y.T, 2, 1), 2 * 5 * 2 * 6 * 8),
        (torch.ops.ksmm.weight_gradient_first, (x, of_y, 2, 1, -1), 2 * 5 * 2 * 6 * 8),
    ]
    for operator, arguments, expected in calls:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            operator(*arguments)
        assert counter.get_total_flops() == expected, operator


@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
@pytest.mark.parametrize("name", ["auto", *ksmm.implementations()])
def test_an_empty_batch_below_transforms(name: str, layout: str, device: str, recwarn: pytest.WarningsRecorder) -> None:
    pattern = ksmm.Pattern(2, 4, 2, 1)
    if name != "auto":
        skip_unsupported(name, pattern, torch.float32, layout, device)
    x, weight = (operand.detach() for operand in operands(pattern, layout, device=device, batch_size=0))
    of_x, of_weight = torch.func.grad(lambda x, weight: ksmm.ks_matmul(x, weight, layout, name).sum(), argnums=(0, 1))(
        x, weight
    )
    assert of_x.shape == x.shape and of_weight.shape == weight.shape and not of_weight.any()
    weights = torch.stack([weight, weight])
    y = torch.func.vmap(lambda weight: ksmm.ks_matmul(x, weight, layout, name))(weights)
    assert y.shape == (2, *ksmm.Problem(pattern, 0, torch.float32, layout).output_shape)
    assert not [warning for warning in recwarn if "batching rule" in str(warning.message)]


def test_the_kernel_refuses_tangents_that_it_would_lose(kernel_library: None, device: str) -> None:
    x, inner, outer = (torch.randn(shape, device=device) for shape in ((5, 16), (2, 6, 8, 1), (1, 12, 6, 2)))
    products = {
        "ks_matmul": lambda x: torch.ops.ksmm.ks_matmul(x, inner, "batch_first", None, "default", -1),
        "ks_chain": lambda x: torch.ops.ksmm.ks_chain(x, outer, inner, None, -1, -1, 0),
    }
    for product in products.values():
        with torch.no_grad(), pytest.raises(NotImplementedError, match="no forward-mode gradients"):
            torch.func.jvp(product, (x,), (x,))


@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
@pytest.mark.parametrize("name", ["sparse", "bsr", "bmm_strided"])
def test_opcheck_of_the_opaque_operator(name: str, layout: str) -> None:
    pattern = ksmm.Pattern(2, 4, 2, 1)
    skip_unsupported(name, pattern, torch.float32, layout, "cpu")
    x, weight = operands(pattern, layout)
    torch.library.opcheck(torch.ops.ksmm.opaque_matmul.default, (x, weight, layout, name))


@pytest.mark.parametrize("name", ksmm.implementations())
@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
def test_operands_without_contiguous_memory(name: str, layout: str, device: str) -> None:
    pattern = ksmm.Pattern(3, 4, 6, 1)
    skip_unsupported(name, pattern, torch.float32, layout, device)
    rows, columns = ksmm.Problem(pattern, 5, torch.float32, layout).input_shape
    x = torch.randn(columns + 3, rows + 2, device=device).T[1:-1, 2:-1]
    weight = torch.randn(6, 3, 1, 5, device=device).permute(1, 3, 0, 2)[:, 1:]
    assert not x.is_contiguous()
    assert tuple(weight.shape) == pattern.weight_shape
    y = ksmm.ks_matmul(x, weight, layout, name)
    assert relative_error(y, reference_matmul(weight, x, layout)) < TOLERANCES[torch.float32]


@pytest.mark.parametrize("name", ksmm.implementations())
def test_an_empty_batch_has_gradients_too(name: str, device: str) -> None:
    pattern = ksmm.Pattern(3, 4, 6, 1)
    skip_unsupported(name, pattern, torch.float32, "batch_first", device)
    x, weight = operands(pattern, "batch_first", device=device, batch_size=0)
    y = ksmm.ks_matmul(x, weight, implementation=name)
    assert y.shape == (0, 12)
    y.sum().backward()
    assert x.grad is not None and x.grad.shape == x.shape
    assert weight.grad is not None and not weight.grad.any()


def test_autocast_casts_as_for_a_linear_layer() -> None:
    x, weight = operands(PATTERN, "batch_first")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = ksmm.ks_matmul(x, weight)
        linear = torch.nn.functional.linear(x, to_dense(weight))
    assert y.dtype == linear.dtype == torch.bfloat16
    y.float().sum().backward()
    assert x.grad.dtype == weight.grad.dtype == torch.float32


@pytest.mark.parametrize("of_x", [torch.int64, torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("of_weight", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("of_bias", [torch.float64, torch.float32, None], ids=str)
def test_autocast_takes_and_refuses_the_dtypes_that_a_linear_layer_does(
    of_x: torch.dtype, of_weight: torch.dtype, of_bias: torch.dtype | None
) -> None:
    x, weight = torch.ones(5, PATTERN.columns, dtype=of_x), torch.ones(PATTERN.weight_shape, dtype=of_weight)
    bias = None if of_bias is None else torch.ones(PATTERN.rows, dtype=of_bias)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        try:
            expected = torch.nn.functional.linear(x, to_dense(weight), bias)
        except RuntimeError:
            with pytest.raises(ValueError, match=r"dtype|convert"):
                ksmm.ks_matmul(x, weight, bias=bias)
        else:
            torch.testing.assert_close(ksmm.ks_matmul(x, weight, bias=bias), expected)


@pytest.mark.parametrize("name", ["auto", "bmm", "kernel"])
@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
def test_the_meta_device_has_shapes_and_gradients(name: str, layout: str) -> None:
    if name != "auto":
        skip_unsupported(name, PATTERN, torch.float32, layout, "cpu")
    x, weight = operands(PATTERN, layout, device="meta")
    y = ksmm.ks_matmul(x, weight, layout, name)
    assert y.device.type == "meta"
    assert y.shape == ((9, PATTERN.rows) if layout == "batch_first" else (PATTERN.rows, 9))
    y.sum().backward()
    assert x.grad.shape == x.shape and weight.grad.shape == weight.shape


def test_auto_takes_a_supported_implementation() -> None:
    for layout in ksmm.LAYOUTS:
        for dtype in (*TOLERANCES, torch.float64):
            name = choices(PATTERN.weight_shape, dtype, layout, "cpu", "auto")[0][2]
            assert get_implementation(name).supports(ksmm.Problem(PATTERN, 1, dtype, layout)) is None


WEIGHT = torch.zeros(2, 6, 4, 3)
BAD_CALLS = {
    "width": ({"x": torch.zeros(5, 23)}, r"x has shape \(5, 23\).*takes \(\.\.\., 24\)"),
    "width in batch_last": (
        {"x": torch.zeros(5, 24), "layout": "batch_last"},
        r"x has shape \(5, 24\).*takes \(24, \.\.\.\)",
    ),
    "rank": ({"x": torch.tensor(1.0)}, r"x has shape \(\)"),
    "dtype": ({"x": torch.zeros(5, 24, dtype=torch.float16)}, "x has dtype float16 and weight float32"),
    "integers": (
        {"x": torch.zeros(5, 24, dtype=torch.int64), "weight": WEIGHT.long()},
        "x and weight have dtype int64; a floating-point dtype",
    ),
    "device": ({"x": torch.zeros(5, 24, device="meta")}, "x is on meta and weight on cpu"),
    "rank of the weight": ({"weight": torch.zeros(6, 4, 3)}, r"weight has shape \(6, 4, 3\)"),
    "empty weight": ({"weight": torch.zeros(2, 0, 4, 3)}, r"weight has shape \(2, 0, 4, 3\)"),
    "shape of the weight": ({"weight": torch.zeros(2, 6, 5, 3)}, r"pattern 2,6,5,3 .*takes \(\.\.\., 30\)"),
    "layout": ({"layout": "bsf"}, "unknown layout 'bsf'; choose one of batch_first, batch_last"),
    "implementation": ({"implementation": "fast"}, "unknown implementation 'fast'; choose one of"),
    "unsupported": ({"implementation": "bmm_strided"}, "'bmm_strided' cannot multiply pattern 2,6,4,3 in batch_first"),
}


@pytest.mark.parametrize(("changes", "message"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_bad_input_is_named(changes: dict, message: str) -> None:
    arguments = {"x": torch.zeros(5, 24), "weight": WEIGHT, **changes}
    with pytest.raises(ValueError, match=message):
        ksmm.ks_matmul(**arguments)


def test_an_implementation_that_is_no_name_is_named() -> None:
    with pytest.raises(TypeError, match=r"implementation is \['bmm'\] \(list\); it must be a name: bmm, .* or auto"):
        ksmm.ks_matmul(torch.zeros(5, 24), WEIGHT, implementation=["bmm"])


@pytest.mark.filterwarnings("ignore:.*prototype:UserWarning")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: torch.nested.nested_tensor([x, x[:2]], layout=torch.jagged), "x is nested; .*to_padded_tensor"),
        (lambda x: torch.nested.nested_tensor([x, x[:2]], layout=torch.strided), "x is nested; .*to_padded_tensor"),
        (torch.Tensor.to_sparse, r"x has layout torch\.sparse_coo; .*\.to_dense\(\)"),
        (torch.Tensor.to_sparse_csr, r"x has layout torch\.sparse_csr; .*\.to_dense\(\)"),
        (torch.Tensor.to_mkldnn, r"x has layout torch\._mkldnn; .*\.to_dense\(\)"),
    ],
)
def test_an_x_that_is_not_strided_is_named(make, message: str) -> None:
    x, layer = make(torch.ones(5, 24)), ksmm.KSLinear([tuple(PATTERN)])
    for multiply in (lambda x: ksmm.ks_matmul(x, WEIGHT), layer, layer.freeze()):
        with torch.no_grad(), pytest.raises(ValueError, match=message):
            multiply(x)


def test_dtypes_that_nothing_multiplies_are_named() -> None:
    layer = ksmm.KSLinear([tuple(PATTERN)], bias=False).to(torch.float8_e4m3fn)
    x = torch.ones(5, 24).to(torch.float8_e4m3fn)
    message = "dtype float8_e4m3fn; .* one of float32, float16, bfloat16, float64"
    for multiply in (lambda: ksmm.ks_matmul(x, WEIGHT.to(x.dtype)), lambda: layer(x), layer.freeze):
        with pytest.raises(ValueError, match=message):
            multiply()
