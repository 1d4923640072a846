"""Two factors as one call, ksmm::ks_chain: in one launch where a kernel takes them, else in two."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import ksmm
from ksmm.implementations import get_implementation
from ksmm.reference import reference_matmul, relative_error
from tests.conftest import TOLERANCES

KERNEL = get_implementation("kernel")
RESIDENT = [  # which one launch takes on Hopper, in 16 bits: X stays,
    ((1, 192, 48, 2), (2, 48, 192, 1)),  # appendix B.7
    ((1, 768, 192, 2), (6, 64, 64, 1)),
    ((1, 128, 128, 8), (8, 128, 128, 1)),  # the default of GPT-2 medium
    ((1, 512, 128, 8), (8, 128, 128, 1)),
    ((1, 40, 64, 2), (2, 64, 40, 1)),  # sides that fill no tile
    ((1, 200, 96, 2), (3, 64, 64, 1)),
    ((1, 136, 32, 8), (2, 128, 128, 1)),
]
STREAMED = [  # or streams past
    ((1, 256, 64, 6), (6, 64, 64, 1)),  # the defaults of ViT-S
    ((1, 64, 64, 6), (6, 64, 256, 1)),
    ((1, 32, 32, 12), (12, 32, 32, 1)),
    ((1, 64, 64, 8), (8, 64, 64, 1)),
    ((1, 40, 32, 6), (3, 64, 24, 1)),  # sides that fill no tile
    ((1, 72, 64, 6), (6, 64, 104, 1)),
    ((1, 8, 32, 12), (12, 32, 200, 1)),
    ((1, 88, 32, 8), (4, 64, 40, 1)),
]
FUSED = [*((entries, "fused_kernel") for entries in RESIDENT), *((entries, "fused_streamed") for entries in STREAMED)]
CHAINS = [
    *RESIDENT,
    *STREAMED,
    ((6, 64, 64, 1), (1, 192, 768, 2)),
    ((1, 128, 128, 8), (8, 128, 512, 1)),
    ((1, 30, 20, 3), (5, 12, 7, 1)),
    ((2, 8, 6, 4), (4, 12, 5, 1)),
    ((1, 40, 16, 6), (3, 32, 24, 1)),
]


def name_of(chain: tuple[tuple[int, ...], ...]) -> str:
    return " · ".join(str(ksmm.Pattern(*pattern)) for pattern in chain)


@pytest.fixture(params=CHAINS, ids=name_of)
def chain(request: pytest.FixtureRequest, device: str) -> tuple[ksmm.Pattern, ksmm.Pattern]:
    outer, inner = (ksmm.Pattern(*pattern) for pattern in request.param)
    reason = KERNEL.supports(ksmm.Problem(inner, 1, torch.float16, "batch_first", device))
    if reason is not None:
        pytest.skip(reason)
    return outer, inner


def weights(chain: tuple[ksmm.Pattern, ksmm.Pattern], dtype: torch.dtype, device: str) -> list[torch.Tensor]:
    return [(torch.rand(p.weight_shape, device=device) * 2 - 1).div(p.c**0.5).to(dtype) for p in chain]


@pytest.mark.parametrize("batch", [1, 12, 20, 77, 1000])
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(("launches", "biased"), [(0, True), (1, False), (1, True), (2, False)])
def test_against_float64(chain, dtype, batch: int, launches: int, biased: bool, device: str) -> None:
    outer, inner = weights(chain, dtype, device)
    x = torch.randn(batch, chain[1].columns, device=device).to(dtype)
    bias = torch.randn(chain[0].rows, device=device).to(dtype) if biased else None
    between = reference_matmul(inner.double(), x.double(), "batch_first")
    expected = reference_matmul(outer.double(), between, "batch_first")
    expected = expected if bias is None else expected + bias.double()
    torch.full_like(expected, float("nan"), dtype=dtype)  # what the allocator hands out next
    packed = [KERNEL.pack(weight, "batch_first") for weight in (inner, outer)]
    y = KERNEL.matmul_chain(*packed, x, bias, launches)
    assert y.dtype == dtype
    assert relative_error(y, expected) < 2 * TOLERANCES[dtype]
    y = torch.ops.ksmm.ks_chain(x, outer, inner, bias, launches=launches)
    assert relative_error(y, expected) < 2 * TOLERANCES[dtype]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_frozen_layer_is_as_exact_as_the_products(chain, dtype, device: str) -> None:
    layer = ksmm.KSLinear(list(chain), implementation="kernel", device=device, dtype=dtype).eval()
    x = torch.randn(2, 33, layer.in_features, device=device, dtype=dtype)
    expected = torch.nn.functional.linear(x.double(), layer.double().to_dense(), layer.bias)
    layer.to(dtype)
    with torch.no_grad():
        plain = relative_error(layer(x), expected)
        frozen = relative_error(layer.freeze()(x), expected)
        assert layer(x[:0]).shape == (0, 33, layer.out_features)
    assert frozen < max(1.2 * plain, TOLERANCES[dtype])


@pytest.mark.parametrize("chain", CHAINS[::4], indirect=True, ids=name_of)  # in float32 all go the same way
def test_opcheck_and_gradients(chain, device: str) -> None:
    outer, inner = (weight.requires_grad_() for weight in weights(chain, torch.float32, device))
    x = torch.randn(5, chain[1].columns, device=device, requires_grad=True)
    bias = torch.randn(chain[0].rows, device=device)
    torch.library.opcheck(torch.ops.ksmm.ks_chain.default, (x, outer, inner, bias))
    torch.library.opcheck(torch.ops.ksmm.ks_chain.default, (x.detach(), outer.detach(), inner.detach()))
    y = torch.ops.ksmm.ks_chain(x, outer, inner, bias)
    expected = ksmm.ks_matmul(ksmm.ks_matmul(x, inner), outer, bias=bias)
    for of_chain, of_products in zip(
        torch.autograd.grad(y.square().sum(), (x, outer, inner)),
        torch.autograd.grad(expected.square().sum(), (x, outer, inner)),
        strict=True,
    ):
        assert relative_error(of_chain, of_products.double()) < TOLERANCES[torch.float32]


def test_factors_that_do_not_chain_are_named(device: str) -> None:
    if KERNEL.supports(ksmm.Problem(ksmm.Pattern(1, 1, 1, 1), 1, torch.float32, "batch_first", device)) is not None:
        pytest.skip("the kernel library is not built for this device")
    x, outer, inner = (torch.randn(shape, device=device) for shape in ((5, 24), (1, 6, 8, 2), (2, 9, 12, 1)))
    with pytest.raises(ValueError, match="takes 16 features and the inner one gives 18"):
        torch.ops.ksmm.ks_chain(x, outer, inner)
    with pytest.raises(ValueError, match="the outer weight is Half"):
        torch.ops.ksmm.ks_chain(x, outer.half(), inner)
    for launches in (0, 1, 2):
        with pytest.raises(ValueError, match=r"have shapes \[1, 0, 9, 2\] and .* each at least 1"):
            torch.ops.ksmm.ks_chain(x.half(), outer.new_empty(1, 0, 9, 2).half(), inner.half(), launches=launches)
    for each in (x, x.clone().requires_grad_()):
        with pytest.raises(ValueError, match="launches is 3; 1 and 2 are possible"):
            torch.ops.ksmm.ks_chain(each, outer, inner, launches=3)


def kernels_of(run: Callable[[], object]) -> list[str]:
    """Names of the kernels of this project that a second call launches."""
    with torch.no_grad():
        run()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            run()
            torch.cuda.synchronize()
    events = [event for event in profile.key_averages() if event.device_type == torch.autograd.DeviceType.CUDA]
    return [event.key for event in events for _ in range(event.count) if "ksmm" in event.key]


on_hopper = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0),
    reason="no CUDA device of compute capability 9.0, which the kernels for two factors are for",
)
ONE_LAUNCH = ("fused_kernel", "fused_streamed", "few_chain_kernel")


@pytest.mark.cuda
@on_hopper
@pytest.mark.parametrize("batch", [256, 8])
@pytest.mark.parametrize(("entries", "kernel"), FUSED, ids=str)
def test_one_launch_on_hopper(entries, kernel: str, batch: int) -> None:
    chain = [ksmm.Pattern(*pattern) for pattern in entries]
    assert KERNEL.supports(ksmm.Problem(chain[1], batch, torch.float16, "batch_first", "cuda")) is None
    outer, inner = (KERNEL.pack(weight, "batch_first") for weight in weights(chain, torch.float16, "cuda"))
    x = torch.randn(batch, chain[1].columns, device="cuda", dtype=torch.float16)
    (name,) = kernels_of(lambda: KERNEL.matmul_chain(inner, outer, x, launches=1))
    assert (kernel if batch > 32 else "few_chain_kernel") in name
    names = kernels_of(lambda: KERNEL.matmul_chain(inner, outer, x, launches=2))
    assert len(names) >= 2 and not any(one in name for name in names for one in ONE_LAUNCH)


@pytest.mark.cuda
@on_hopper
@pytest.mark.parametrize(
    ("entries", "batch", "kernel"),
    [
        (RESIDENT[1], 25216, "fused_kernel"),
        (RESIDENT[1], 197, None),
        (RESIDENT[2], 1, None),
        (RESIDENT[2], 8, "few_chain_kernel"),
        *((entries, 25216, "fused_streamed") for entries in STREAMED[:3]),
    ],
    ids=str,
)
def test_a_frozen_layer_takes_one_launch_where_that_is_faster(entries, batch: int, kernel: str | None) -> None:
    layer = ksmm.KSLinear(list(entries), implementation="kernel", device="cuda", dtype=torch.float16).eval().freeze()
    x = torch.randn(batch, layer.in_features, device="cuda", dtype=torch.float16)
    found = [name for name in kernels_of(lambda: layer(x)) if any(one in name for one in ONE_LAUNCH)]
    assert [kernel in name for name in found] == ([True] if kernel else [])
