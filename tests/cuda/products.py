"""Problems for the CUDA kernel, and how its results are held to float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from ksmm import Pattern
from ksmm.problem import Problem
from ksmm.reference import reference_matmul
from tests.conftest import TOLERANCES

LONG_SUM = 512
"""From this c on, float32 sums one after the other lose a little more."""

WEIGHT_ORDERS = {
    "packed": (0, 3, 1, 2),  # as the kernel's pack stores the 16-bit types: k contiguous
    "canonical": (0, 1, 2, 3),  # j contiguous
    "transposed": (0, 3, 2, 1),  # r contiguous, as pack stores float32, and as in the gradient of x otherwise
    "reversed": (3, 2, 1, 0),
}
"""Orders of (a, b, c, d) in memory."""


def tolerance(dtype: torch.dtype, pattern: Pattern) -> float:
    """The largest relative error allowed."""
    return 2e-6 if dtype == torch.float32 and pattern.c >= LONG_SUM else TOLERANCES[dtype]


def inputs(problem: Problem, device: str | torch.device | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """X standard normal, the canonical weight uniform in ±1/√c; on that device, or the problem's."""
    pattern, device = problem.pattern, device or problem.device_type
    x = torch.randn(problem.input_shape, device=device, dtype=problem.dtype)
    weight = torch.empty(pattern.weight_shape, device=device).uniform_(-1, 1).div_(math.sqrt(pattern.c))
    return x, weight.to(problem.dtype)


def stored_as(weight: torch.Tensor, order: str) -> torch.Tensor:
    """The same tensor, with its dimensions in another order in memory."""
    dims = WEIGHT_ORDERS[order]
    inverse = sorted(range(4), key=dims.__getitem__)
    return weight.permute(dims).contiguous().permute(inverse)


def assert_close(y: torch.Tensor, reference: torch.Tensor, allowed: float, context: object = "") -> None:
    """Small error over all, and none of the outputs far off.

    A norm of `reference` far below what such inputs give (few outputs that happen to be near 0) is not divided by.
    """
    assert y.shape == reference.shape
    if y.numel() == 0:
        return
    difference = y.double() - reference
    scale = max(torch.linalg.vector_norm(reference).item(), math.sqrt(y.numel() / 3))
    error = torch.linalg.vector_norm(difference).item() / scale
    assert error < allowed, f"relative error {error:.2e} {context}"  # NaN is not smaller than anything
    largest = difference.abs().max().item()
    assert largest < 20 * allowed, f"largest error of one output {largest:.2e} {context}"


def number_of(name: str, x: torch.Tensor, weight: torch.Tensor, layout: str = "batch_first") -> int:
    """A configuration's number, which on a GPU of compute capability 9.0 must be there; elsewhere it skips."""
    listed = [entry.split(" ", 1) for entry in torch.ops.ksmm.configurations(x, weight, layout)]
    for number, own in listed:
        if own == name:
            return int(number)
    if torch.cuda.get_device_capability(x.device) == (9, 0):
        pytest.fail(f"no {name} for {tuple(weight.shape)}, {tuple(x.shape)} in {layout} among {dict(listed)}")
    pytest.skip(f"no {name} on this device")


def put_infinities(tensor: torch.Tensor, count: int) -> None:
    """Infinities of both signs and NaN, as tensors are filled with and as GPUs make them, which is all ones.

    At so many random places of a contiguous tensor.
    """
    bits = torch.int32 if tensor.dtype == torch.float32 else torch.int16
    values = torch.tensor([torch.inf, torch.nan, -torch.inf, torch.nan], dtype=tensor.dtype)
    values.view(bits)[1] = torch.iinfo(bits).max
    values = values.to(tensor.device)
    places = torch.randperm(tensor.numel(), device=tensor.device)[:count]
    tensor.view(-1)[places] = values.repeat(count)[:count]


def assert_close_where_finite(y: torch.Tensor, reference: torch.Tensor, allowed: float, context: object = "") -> None:
    """The same infinities and NaN at the same places, and elsewhere as assert_close."""
    for kind in (torch.isnan, torch.isposinf, torch.isneginf):
        assert torch.equal(kind(y), kind(reference)), f"{kind.__name__} differs {context}"
    finite = reference.isfinite()
    assert_close(y[finite], reference[finite], allowed, context)


def check(operator: Callable[..., torch.Tensor], problem: Problem, order: str | None = None) -> None:
    """One product on fresh random inputs against float64, with the weight as pack stores it unless `order` says."""
    order = order or ("transposed" if problem.dtype == torch.float32 else "packed")
    x, weight = inputs(problem)
    y = operator(x, stored_as(weight, order), problem.layout)
    assert y.dtype == problem.dtype
    assert_close(y, reference_matmul(weight, x, problem.layout), tolerance(problem.dtype, problem.pattern))
