"""What the kernel keeps of a packed weight: products with it are those without, and what is kept is what is read."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import ksmm
from ksmm import Pattern
from ksmm.implementations import get_implementation
from ksmm.implementations.kept import PackedForMany
from ksmm.problem import LAYOUTS, Problem
from ksmm.reference import reference_matmul
from tests.conftest import TOLERANCES
from tests.cuda.products import assert_close, inputs, number_of, tolerance

pytestmark = pytest.mark.cuda

PROBLEMS = [
    *[((2, 40, 72, d), "batch_first") for d in (2, 3, 4, 6, 8, 12, 16, 24)],
    *[((1, 100, 56, 48), "batch_first"), ((3, 33, 17, 20), "batch_first"), ((1, 128, 200, 100), "batch_first")],
    *[((2, 72, 64, 1), layout) for layout in LAYOUTS],
    *[((2, 136, 100, 5), "batch_last"), ((1, 96, 256, 16), "batch_last")],
]
KERNEL = get_implementation("kernel")


def stored(weight: torch.Tensor, layout: str) -> torch.Tensor:
    return torch.ops.ksmm.pack(weight, layout, "default")


def names_by_number(x: torch.Tensor, weight: torch.Tensor, layout: str) -> dict[int, str]:
    listed = (entry.split(" ", 1) for entry in torch.ops.ksmm.configurations(x, weight, layout))
    return {int(number): name for number, name in listed}


@pytest.mark.parametrize(("entries", "layout"), PROBLEMS, ids=str)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_products_with_what_is_kept_are_those_without(operator, dtype, entries, layout: str) -> None:
    pattern = Pattern(*entries)
    x, weight = inputs(Problem(pattern, 1000, dtype, layout, "cuda"))
    others = [inputs(Problem(pattern, batch, dtype, layout, "cuda"))[0] for batch in (1, 77, 2048)]
    weight = stored(weight, layout)
    bias = torch.randn(pattern.rows, device="cuda").to(dtype)
    expected = {}
    for number, name in names_by_number(x, weight, layout).items():
        chosen, kept = torch.ops.ksmm.keep(x, weight, layout, "default", number)
        assert chosen == number
        assert kept or "prepared" not in name
        for each in (x, *others) if kept else ():
            y = torch.ops.ksmm.ks_matmul_kept(each, weight, layout, bias, "default", number, kept)
            assert torch.equal(y, operator(each, weight, layout, bias, "default", number)), (name, tuple(each.shape))
            if each not in expected:
                reference = reference_matmul(weight.double(), each.double(), layout)
                expected[each] = reference + (bias if layout == "batch_first" else bias[:, None]).double()
            assert_close(y, expected[each], tolerance(dtype, pattern), name)


def test_every_family_that_makes_something_of_the_weight_keeps_it(operator) -> None:
    found = set()
    for entries, layout in PROBLEMS:
        for dtype in TOLERANCES:
            x, weight = inputs(Problem(Pattern(*entries), 1000, dtype, layout, "cuda"))
            weight = stored(weight, layout)
            for number, name in names_by_number(x, weight, layout).items():
                if torch.ops.ksmm.keep(x, weight, layout, "default", number)[1]:
                    found.add(name)
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("made by kernels of compute capability 9.0")
    tiles = [f"planes {planes}" for planes in ("j4", "j12", "j16", "j24", "sector")]
    for tile in (*tiles, "halves last", "halves first"):
        assert any(name.startswith(f"{tile} ") for name in found), (tile, sorted(found))


@pytest.mark.parametrize(("entries", "layout"), PROBLEMS, ids=str)
def test_the_choice_for_kept_weights_is_listed_first(operator, entries, layout: str) -> None:
    for dtype in TOLERANCES:
        x, weight = inputs(Problem(Pattern(*entries), 1000, dtype, layout, "cuda"))
        weight = stored(weight, layout)
        listed = torch.ops.ksmm.configurations(x, weight, layout, "default", True)
        assert int(listed[0].split(" ", 1)[0]) == torch.ops.ksmm.keep(x, weight, layout, "default", -1)[0]
        assert sorted(listed) == sorted(torch.ops.ksmm.configurations(x, weight, layout))


def test_it_is_what_is_kept_that_multiplies(operator) -> None:
    x, weight = inputs(Problem(Pattern(2, 64, 80, 16), 1000, torch.float16, "batch_first", "cuda"))
    expected = reference_matmul(weight, x, "batch_first")
    weight = stored(weight, "batch_first").clone()
    number = number_of("planes j16 r48 k16 prepared", x, weight)
    _, kept = torch.ops.ksmm.keep(x, weight, "batch_first", "default", number)
    weight.fill_(float("nan"))
    y = torch.ops.ksmm.ks_matmul_kept(x, weight, "batch_first", None, "default", number, kept)
    assert_close(y, expected, tolerance(torch.float16, Pattern(2, 64, 80, 16)))
    # rows that the configuration does not take are multiplied by another one, by the weight itself
    odd = torch.empty(1000 * 2560 + 1, device="cuda", dtype=torch.float16)[1:].view(1000, 2560).copy_(x)
    y = torch.ops.ksmm.ks_matmul_kept(odd, weight, "batch_first", None, "default", number, kept)
    assert y.isnan().all()


class Calls(TorchDispatchMode):
    """The kernel's operators that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace == "ksmm" and "configurations" not in function.name():  # by which names are looked up
            self.names.append(function._schema.name.removeprefix("ksmm::"))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("batch", [25_088, 40_000], ids=("tuned", "untuned"))
def test_it_is_made_at_the_first_product_of_a_weight_that_is_packed_for_many(operator, batch: int) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("made by kernels of compute capability 9.0")
    x, weight = inputs(Problem(Pattern(1, 48, 48, 48), batch, torch.bfloat16, "batch_first", "cuda"))
    packed = KERNEL.pack(weight, "batch_first")
    expected = reference_matmul(weight, x, "batch_first")
    for names in (["keep", "ks_matmul_kept"], ["ks_matmul_kept"]):
        with torch.no_grad(), Calls() as calls:
            y = KERNEL.matmul(packed, x)
        assert calls.names == names
        assert_close(y, expected, tolerance(torch.bfloat16, packed.pattern))
    assert [len(tensors) for tensors in packed.kept.values()] == [1]
    with torch.no_grad(), Calls() as calls:
        KERNEL.matmul(KERNEL.pack_once(weight, "batch_first"), x)
    assert calls.names == ["ks_matmul"] or calls.names == ["pack", "ks_matmul"]


def test_nothing_is_made_while_a_graph_is_captured(operator) -> None:
    x, weight = inputs(Problem(Pattern(1, 48, 48, 48), 4096, torch.float16, "batch_first", "cuda"))
    packed = KERNEL.pack(weight, "batch_first")
    expected = reference_matmul(weight, x, "batch_first")
    for is_kept in (False, True):
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            y = KERNEL.matmul(packed, x)
        assert bool(packed.kept) == is_kept
        y.fill_(float("nan"))
        graph.replay()
        assert_close(y, expected, tolerance(torch.float16, packed.pattern))
        with torch.no_grad():
            KERNEL.matmul(packed, x)  # which makes it


def test_it_serves_other_streams_and_layers(operator) -> None:
    layer = ksmm.KSLinear([(1, 48, 48, 48)], bias=True, device="cuda", dtype=torch.bfloat16).eval()
    x = torch.randn(4096, 48 * 48, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        expected = layer(x)
        layer.freeze()
        first, second = torch.cuda.Stream(), torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(first):
            torch.cuda._sleep(50_000_000)
            y = layer(x)
        with torch.cuda.stream(second):
            z = layer(x)
        torch.cuda.synchronize()
        torch.testing.assert_close(y, expected, rtol=2e-2, atol=2e-2)
        torch.testing.assert_close(z, y, rtol=0, atol=0)
        layer.factors[0].mul_(2)  # seen: the layer does without what is frozen
        torch.testing.assert_close(layer(x) - layer.bias, 2 * (y - layer.bias), rtol=3e-2, atol=3e-2)


def test_gradients_are_those_without(operator) -> None:
    problem = Problem(Pattern(1, 48, 48, 48), 512, torch.float16, "batch_first", "cuda")
    x, weight = inputs(problem)
    packed = KERNEL.pack(weight, "batch_first")
    assert isinstance(packed, PackedForMany)
    with torch.no_grad():
        KERNEL.matmul(packed, x)
    x.requires_grad_()
    y = KERNEL.matmul(packed, x)
    (gradient,) = torch.autograd.grad(y, x, torch.ones_like(y))
    expected = reference_matmul(weight.transpose(1, 2), torch.ones_like(y), "batch_first")
    assert_close(gradient, expected, tolerance(torch.float16, problem.pattern))


def test_the_operator_is_sound_and_refuses_what_is_not_kept(operator) -> None:
    x, weight = inputs(Problem(Pattern(1, 64, 64, 16), 256, torch.float16, "batch_first", "cuda"))
    weight = stored(weight, "batch_first")
    number = number_of("planes j16 r48 k16 prepared", x, weight)
    _, kept = torch.ops.ksmm.keep(x, weight, "batch_first", "default", number)
    arguments = (x, weight, "batch_first", None, "default", number)
    torch.library.opcheck(torch.ops.ksmm.ks_matmul_kept.default, (*arguments, kept))
    beside = kept[0].new_empty(kept[0].numel() + 8)[8:].copy_(kept[0])  # no multiple of 16 bytes
    for wrong in ([], kept * 4, [kept[0].cpu()], [kept[0].view(torch.int16)], [kept[0][1:-1].clone()], [beside]):
        with pytest.raises(ValueError, match="ks_matmul_kept"):
            torch.ops.ksmm.ks_matmul_kept(*arguments, wrong)
