"""The kernel on the CPU against the float64 reference: every path of its tiling, on every input the operator takes."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ksmm import DTYPES, LAYOUTS, Pattern, Problem, build, implementations
from ksmm.reference import reference_matmul, relative_error
from tests.conftest import TOLERANCES
from tests.cuda.products import assert_close
from tests.shapes import assert_the_same_whatever_the_threads

KERNEL = implementations()["kernel"]
# One per way of spreading X over lanes (d repeated, reordered, consecutive, wrapped) for vectors of 4, 8 and 16, with
# b and c on both sides of a tile's and a block's size.
PATTERNS = [
    (1, 1, 1, 1), (1, 192, 48, 2), (2, 48, 192, 1), (3, 5, 129, 4), (2, 17, 65, 8), (2, 3, 300, 1), (5, 2, 2, 2),
    (1, 7, 3, 3), (2, 33, 20, 3), (1, 12, 5, 5), (1, 31, 64, 6), (1, 3, 2, 7), (2, 4, 9, 12), (1, 11, 6, 15),
    (2, 13, 130, 16), (1, 40, 7, 17), (1, 6, 70, 24), (1, 2, 3, 33), (3, 9, 5, 48), (1, 5, 8, 64), (1, 1, 70, 100),
    (40, 2, 2, 1), (1, 300, 2, 1), (1, 600, 3, 16), (2, 1, 9, 101), (3, 2, 5, 31), (2, 1, 130, 9),
    (2, 64, 65, 3), (1, 33, 70, 6), (1, 64, 129, 5), (1, 70, 2, 7),
]  # fmt: skip
BATCHES = (0, 1, 2, 5, 7, 13, 49, 130)


@pytest.fixture(autouse=True)
def _built() -> None:
    reason = KERNEL.supports(Problem(Pattern(1, 1, 1, 1), 1, torch.float32, "batch_first"))
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def _nan_poisoned():
    """torch.empty gives NaN, so that an element of Y that is not written is seen."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def kernel(x: torch.Tensor, weight: torch.Tensor, layout: str, bias: torch.Tensor | None = None) -> torch.Tensor:
    return torch.ops.ksmm.ks_matmul(x, weight, layout, bias)


def operands(pattern: tuple[int, int, int, int], batch: int, layout: str, dtype: torch.dtype = torch.float32):
    problem = Problem(Pattern(*pattern), batch, dtype, layout)
    weight = (torch.rand(pattern) * 2 - 1) / pattern[2] ** 0.5
    return torch.randn(problem.input_shape).to(dtype), weight.to(dtype)


def with_bias(y: torch.Tensor, bias: torch.Tensor | None, layout: str) -> torch.Tensor:
    if bias is None:
        return y
    return y + (bias if layout == "batch_first" else bias[:, None])


def check(
    y: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    layout: str,
    context: object = "",
    bias: torch.Tensor | None = None,
) -> None:
    reference = with_bias(reference_matmul(weight, x, layout), None if bias is None else bias.double(), layout)
    assert y.shape == reference.shape and y.dtype == x.dtype and y.is_contiguous()
    assert_close(y, reference, TOLERANCES[x.dtype], context)


@pytest.mark.usefixtures("_nan_poisoned")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES.keys())
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_every_path(pattern, dtype, layout):
    for batch in BATCHES:
        x, weight = operands(pattern, batch, layout, dtype)
        packed = KERNEL.pack(weight, layout)
        assert packed.data.shape == weight.shape
        check(KERNEL.matmul(packed, x), x, weight, layout, f"batch {batch}, packed")
        check(kernel(x, weight, layout), x, weight, layout, f"batch {batch}, canonical")
        bias = torch.randn(pattern[0] * pattern[1] * pattern[3]).to(dtype)
        check(kernel(x, weight, layout, bias), x, weight, layout, f"batch {batch}, bias", bias)
        check(KERNEL.matmul_bias(packed, x, bias), x, weight, layout, f"batch {batch}, packed, bias", bias)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_long_sums_are_as_exact_as_those_of_pytorch(layout):
    x, weight = operands((1, 40, 8192, 1), 24, layout)
    x, weight = x.abs(), weight.abs()  # errors of positive numbers do not cancel
    dense, reference = weight[0, ..., 0], reference_matmul(weight, x, layout)
    others = x @ dense.T if layout == "batch_first" else dense @ x
    assert relative_error(kernel(x, weight, layout), reference) < 2 * relative_error(others, reference) + 1e-7


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bias_is_added_before_rounding(layout, dtype):
    """One product and one sum in float32, then one rounding; and a bias of any strides."""
    x, weight = operands((3, 17, 1, 5), 33, layout, dtype)
    bias = torch.randn(2 * 3 * 17 * 5).to(dtype)[::2]
    exact = with_bias(reference_matmul(weight, x, layout), bias.double(), layout)
    assert torch.equal(kernel(x, weight, layout, bias), exact.float().to(dtype))


VARIANT_SCRIPT = """
import sys, torch
from tests import test_kernel_cpu as tests
if reason := tests.KERNEL.supports(tests.Problem(tests.Pattern(1, 1, 1, 1), 1, torch.float32, "batch_first")):
    sys.exit(reason)
torch.manual_seed(int(sys.argv[1]))
for layout in tests.LAYOUTS:
    for dtype in tests.DTYPES.values():
        for pattern in tests.PATTERNS:
            for batch in (1, 13, 97):
                x, weight = tests.operands(pattern, batch, layout, dtype)
                tests.check(tests.kernel(x, weight, layout), x, weight, layout, (pattern, layout, dtype, batch))
                bias = torch.randn(pattern[0] * pattern[1] * pattern[3]).to(dtype)
                y = tests.kernel(x, weight, layout, bias)
                tests.check(y, x, weight, layout, (pattern, layout, dtype, batch, "bias"), bias)
        if dtype != torch.float32:
            tests.test_conversions_are_exact_for_every_number(layout, dtype)
            tests.test_rounding_is_to_nearest_even(dtype)
print("done")
"""


def run_variant(variant: str, request: pytest.FixtureRequest) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KSMM_CPU_VARIANT": variant, "PYTHONPATH": str(request.config.rootpath)}
    command = [sys.executable, "-c", VARIANT_SCRIPT, str(torch.initial_seed() % 2**31)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("variant", ["baseline", "avx2", "avx512", "avx512_bf16", "amx"])
def test_variants_of_other_machines(variant, request):
    """The instruction sets that this machine would not choose by itself, or not for problems so small."""
    result = run_variant(variant, request)
    if "this machine cannot run" in result.stderr:
        pytest.skip(f"this machine cannot run {variant}")
    assert result.stdout.strip() == "done", f"{result.args}\n{result.stderr}"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("pattern", [(2, 17, 9, 3), (1, 16, 8, 16), (2, 5, 40, 1), (1, 4, 6, 20)], ids=str)
def test_x_of_any_strides_and_offsets(pattern, layout):
    x, weight = operands(pattern, 21, layout)
    rows, columns = x.shape
    poisoned = torch.full((rows + 3, columns + 7), float("nan"))
    poisoned[1 : 1 + rows, 3 : 3 + columns] = x
    part = poisoned[1 : 1 + rows, 3 : 3 + columns]
    check(kernel(part, weight, layout), x, weight, layout, "a part of a larger matrix")
    check(kernel(x.T.contiguous().T, weight, layout), x, weight, layout, "transposed")
    spread = torch.full((2 * rows, 2 * columns), float("nan"))
    spread[::2, ::2] = x
    check(kernel(spread[::2, ::2], weight, layout), x, weight, layout, "every other element")
    same = x[:1].expand(rows, columns)
    check(kernel(same, weight, layout), same, weight, layout, "one row over and over")
    last = torch.cat([torch.full((5,), float("nan")), x.reshape(-1)])[5:].view(rows, columns)
    check(kernel(last, weight, layout), x, weight, layout, "ends where its memory ends")


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES.keys())
@pytest.mark.parametrize("layout", LAYOUTS)
def test_weight_of_any_strides(layout, dtype):
    for pattern in [(2, 19, 18, 3), (3, 5, 21, 16), (2, 35, 6, 1), (2, 3, 4, 21)]:
        x, weight = operands(pattern, 9, layout, dtype)
        for order in itertools.permutations(range(4)):
            stored = weight.permute(order).contiguous().permute([order.index(axis) for axis in range(4)])
            check(kernel(x, stored, layout), x, weight, layout, (pattern, order))
        poisoned = torch.full([2 * size for size in pattern], float("nan"), dtype=dtype)
        poisoned[::2, 1::2, ::2, 1::2] = weight
        check(kernel(x, poisoned[::2, 1::2, ::2, 1::2], layout), x, weight, layout, pattern)
        same = weight[:, :1, :1].expand(pattern)
        check(kernel(x, same, layout), x, same, layout, "expanded")


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES.keys())
@pytest.mark.parametrize("layout", LAYOUTS)
def test_weights_that_are_used_once_are_not_copied(layout, dtype):
    x, weight = operands((2, 17, 9, 3), 7, layout, dtype)
    once = KERNEL.pack_once(weight, layout)
    assert once.data.data_ptr() == weight.data_ptr()
    assert torch.equal(KERNEL.matmul(once, x), KERNEL.matmul(KERNEL.pack(weight, layout), x))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_transposed_factor_needs_no_copy(layout):
    pattern = (3, 17, 40, 5)
    _, weight = operands(pattern, 1, layout)
    x, _ = operands((3, 40, 17, 5), 11, layout)
    check(kernel(x, weight.transpose(1, 2), layout), x, weight.transpose(1, 2), layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_offsets_beyond_32_bits(layout):
    """Rows of X and of the weight that lie more than 2^31 elements apart, in memory that is never touched."""
    x, weight = operands((1, 3, 2, 1), 2, layout, torch.float16)
    far = 2**31 + 7
    try:
        memory = torch.empty(far + 16, dtype=torch.float16)
    except RuntimeError as error:
        pytest.skip(f"no address space: {error}")
    distant = memory.as_strided(x.shape, (far, 1)).copy_(x)
    check(kernel(distant, weight, layout), x, weight, layout)
    memory = torch.empty(far + 16, dtype=torch.float16)
    distant = memory.as_strided(weight.shape, (1, 1, far, 1)).copy_(weight)
    check(kernel(x, distant, layout), x, weight, layout)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_conversions_are_exact_for_every_number(layout, dtype):
    """Times 1: every one of the 65,536 numbers comes back, subnormal numbers, infinities and NaN included.

    But that the instructions for pairs of bfloat16 take subnormal numbers for zeros.
    """
    x = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(dtype).view(256, 256)
    y = kernel(x, torch.ones(1, 1, 1, 256, dtype=dtype), layout)
    if dtype == torch.bfloat16 and os.environ.get("KSMM_CPU_VARIANT", "amx") in ("amx", "avx512_bf16"):
        flushed = (x.abs() < torch.finfo(dtype).smallest_normal) & (y == 0)
        x = torch.where(flushed, torch.zeros_like(x), x)
    torch.testing.assert_close(y, x, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(y.isnan(), x.isnan())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_rounding_is_to_nearest_even(dtype):
    """One product is exact in float32, so the result must be what PyTorch rounds it to, overflow included."""
    x = (torch.randn(512, 512) * 10 ** torch.linspace(-4, 4, 512)).to(dtype)
    weight = (torch.randn(1, 1, 1, 512) * 30).to(dtype)
    exact = x.float() * weight.float().view(1, 512)
    assert torch.equal(kernel(x, weight, "batch_first"), exact.to(dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("pattern", [(2, 3, 4, 5), (2, 20, 4, 1), (1, 3, 5, 16), (2, 3, 2, 40)], ids=str)
def test_nan_reaches_what_depends_on_it_and_nothing_else(pattern, layout):
    x, weight = operands(pattern, 8, layout)
    x[3, 2] = float("nan")
    y = kernel(x, weight, layout)
    assert torch.equal(y.isnan(), reference_matmul(weight, x, layout).isnan())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_result_is_the_same_whatever_the_threads(layout):
    x, weight = operands((3, 50, 200, 6), 300, layout)
    assert_the_same_whatever_the_threads(lambda: kernel(x, weight, layout))


# the weight's gradient in batch_last: over i, over j, at once, and by too many matrices for a call each
@pytest.mark.parametrize("pattern", [(2, 5, 6, 3), (5, 4, 3, 2), (1, 5, 6, 4), (4, 6, 5, 1), (17, 2, 3, 18)])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES.keys())
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients(layout, dtype, pattern):
    rows = Pattern(*pattern).rows
    inputs = [*operands(pattern, 7, layout, dtype), torch.randn(rows).to(dtype)]
    x, weight, bias = (tensor.requires_grad_() for tensor in inputs)
    x64, weight64, bias64 = (tensor.detach().double().requires_grad_() for tensor in inputs)
    y = kernel(x, weight, layout, bias)
    y64 = with_bias(reference_matmul(weight64, x64, layout), bias64, layout)
    direction = torch.randn(y.shape).to(dtype)
    gradients = torch.autograd.grad(y, (x, weight, bias), direction)
    expected = torch.autograd.grad(y64, (x64, weight64, bias64), direction.double())
    for gradient, truth in zip(gradients, expected, strict=True):
        assert gradient.dtype == dtype
        assert relative_error(gradient, truth) < TOLERANCES[dtype]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_double_backward(layout):
    x, weight = (tensor.requires_grad_() for tensor in operands((2, 3, 4, 5), 6, layout))
    x64, weight64 = (tensor.detach().double().requires_grad_() for tensor in (x, weight))
    second = []
    for y, inputs in (
        (kernel(x, weight, layout), (x, weight)),
        (reference_matmul(weight64, x64, layout), (x64, weight64)),
    ):
        first = torch.autograd.grad(y.square().sum(), inputs, create_graph=True)
        second.append(torch.autograd.grad(sum(gradient.square().sum() for gradient in first), inputs))
    for gradient, truth in zip(*second, strict=True):
        assert relative_error(gradient, truth) < TOLERANCES[torch.float32]


def test_gradient_of_a_sum():
    """Its gradient of Y is one number, expanded: no stride of it is 1."""
    x, weight = (tensor.requires_grad_() for tensor in operands((2, 3, 4, 5), 6, "batch_first"))
    kernel(x, weight, "batch_first").sum().backward()
    torch.testing.assert_close(x.grad[0].view(2, 4, 5), weight.detach().sum(1))
    assert weight.grad.shape == weight.shape


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [0, 5])
def test_opcheck(layout, batch):
    x, weight = (tensor.requires_grad_() for tensor in operands((2, 3, 4, 5), batch, layout))
    torch.library.opcheck(torch.ops.ksmm.ks_matmul.default, (x, weight, layout))
    torch.library.opcheck(torch.ops.ksmm.ks_matmul.default, (x.detach().bfloat16(), weight.bfloat16(), layout))
    bias = torch.randn(30, requires_grad=True)
    torch.library.opcheck(torch.ops.ksmm.ks_matmul.default, (x, weight, layout, bias))
    torch.library.opcheck(torch.ops.ksmm.ks_matmul.default, (x.detach(), weight.detach(), layout, bias))


def test_compiles_into_one_graph():
    x, weight = (tensor.requires_grad_() for tensor in operands((2, 3, 4, 5), 6, "batch_first"))
    compiled = torch.compile(lambda x, weight: kernel(x.relu(), weight, "batch_first").sin(), fullgraph=True)
    y = kernel(x.relu(), weight, "batch_first").sin()
    torch.testing.assert_close(compiled(x, weight), y)
    direction = torch.randn_like(y)
    torch.testing.assert_close(
        torch.autograd.grad(compiled(x, weight), (x, weight), direction),
        torch.autograd.grad(y, (x, weight), direction),
    )


@pytest.mark.parametrize(
    ("x", "weight", "layout", "message"),
    [
        (torch.ones(2, 12), torch.ones(1, 2, 3, 4), "batch_middle", r"'batch_middle'; choose one of batch_first, "),
        (torch.ones(2, 3, 12), torch.ones(1, 2, 3, 4), "batch_first", r"x has 3 dimensions.*reshape x"),
        (torch.ones(12), torch.ones(1, 2, 3, 4), "batch_first", r"x has 1 dimensions"),
        (torch.ones(2, 13), torch.ones(1, 2, 3, 4), "batch_first", r"\[2, 13\]; dimension 1 must be a·c·d = 12"),
        (torch.ones(2, 12), torch.ones(1, 2, 3, 4), "batch_last", r"\[2, 12\]; dimension 0 must be a·c·d = 12"),
        (torch.ones(2, 12), torch.ones(2, 3, 4), "batch_first", r"weight has shape \[2, 3, 4\].*\(a, b, c, d\)"),
        (torch.ones(2, 0), torch.ones(1, 2, 0, 4), "batch_first", r"weight has shape \[1, 2, 0, 4\]"),
        (torch.ones(2, 12), torch.ones(1, 2, 3, 4).half(), "batch_first", r"x has dtype Float and weight Half"),
        (torch.ones(2, 12).double(), torch.ones(1, 2, 3, 4).double(), "batch_first", r"dtype Double.*takes Float"),
        (torch.ones(2, 12).int(), torch.ones(1, 2, 3, 4).int(), "batch_first", r"dtype Int"),
    ],
)
def test_bad_input(x, weight, layout, message):
    with pytest.raises(ValueError, match=message):
        kernel(x, weight, layout)


@pytest.mark.parametrize(
    ("bias", "message"),
    [
        (torch.ones(7), r"bias has shape \[7\]; .* a·b·d = 8"),
        (torch.ones(1, 8), r"bias has shape \[1, 8\]"),
        (torch.ones(8).half(), r"bias is Half on cpu and x Float"),
    ],
)
def test_bad_bias(bias, message):
    with pytest.raises(ValueError, match=message):
        kernel(torch.ones(2, 12), torch.ones(1, 2, 3, 4), "batch_first", bias)


def test_supports_says_why_not():
    pattern = Pattern(1, 2, 3, 4)
    assert KERNEL.supports(Problem(pattern, 1, torch.float32, "batch_first", "cpu")) is None
    assert "float64; the kernel takes float32" in KERNEL.supports(Problem(pattern, 1, torch.float64, "batch_first"))
    if not build.find().cuda_architectures:
        reason = KERNEL.supports(Problem(pattern, 1, torch.float32, "batch_first", "cuda"))
        assert "built without CUDA" in reason


def test_unknown_variant_is_an_error(request):
    result = run_variant("avx3", request)
    assert "KSMM_CPU_VARIANT is 'avx3'; choose one of baseline, avx2, avx512, avx512_bf16, amx" in result.stderr


def test_uses_only_pytorchs_own_openmp():
    """A second OpenMP runtime would bring a second set of threads, which torch.set_num_threads does not know."""
    runtimes = [path for path in needed_libraries() if path.name.startswith(("libgomp", "libomp", "libiomp"))]
    assert len(runtimes) == 1 and runtimes[0].parent.samefile(Path(torch.__file__).parent / "lib"), runtimes


def test_uses_the_shared_cxx_library():
    """A second C++ library, linked statically, crashes when it prints a number."""
    assert any(path.name.startswith(("libstdc++", "libc++")) for path in needed_libraries())


def needed_libraries() -> list[Path]:
    if not shutil.which("ldd"):
        pytest.skip("no ldd")
    output = subprocess.run(["ldd", build.find().library], capture_output=True, text=True, check=True).stdout
    return [Path(line.split("=>")[1].split()[0]) for line in output.splitlines() if "=> /" in line]
