"""Problems of any shape for property-based tests, and their results in float64."""

from __future__ import annotations

from collections.abc import Callable

import torch
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st

from ksmm import Pattern
from ksmm.problem import LAYOUTS, Problem
from ksmm.reference import reference_matmul
from tests.conftest import TOLERANCES

SIZES = st.sampled_from((1, 2, 3, 5, 7, 8, 16, 24, 31, 40, 48, 56, 64, 65, 72, 96, 128, 136, 192, 200, 257))
MULTIPLICITIES = st.sampled_from((1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 20, 24, 32, 40, 100))
BATCHES = st.sampled_from((1, 2, 8, 63, 64, 65, 77, 128, 136, 200, 256, 331))
MOST_WORK = 3_000_000  # elements of any operand

examples = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def problems(draw: st.DrawFn, device_type: str) -> Problem:
    pattern = Pattern(draw(st.sampled_from((1, 1, 2, 3))), draw(SIZES), draw(SIZES), draw(MULTIPLICITIES))
    batch = draw(BATCHES)
    assume(max(pattern.nnz, batch * pattern.rows, batch * pattern.columns) <= MOST_WORK)
    return Problem(pattern, batch, draw(st.sampled_from(list(TOLERANCES))), draw(st.sampled_from(LAYOUTS)), device_type)


def poison(problem: Problem) -> None:
    """Leaves NaN in the memory that the allocator will hand out for the output."""
    for _ in range(2):
        torch.full(problem.output_shape, float("nan"), device=problem.device_type, dtype=problem.dtype)


def bias_of(problem: Problem, present: bool) -> torch.Tensor | None:
    return torch.randn(problem.pattern.rows, device=problem.device_type).to(problem.dtype) if present else None


def beginning_elsewhere(bias: torch.Tensor | None) -> torch.Tensor | None:
    """The same numbers, where no vector of several begins."""
    return None if bias is None else torch.cat((bias[:1], bias))[1:]


def expected(x: torch.Tensor, weight: torch.Tensor, layout: str, bias: torch.Tensor | None) -> torch.Tensor:
    reference = reference_matmul(weight, x, layout)
    if bias is None:
        return reference
    return reference + (bias.double() if layout == "batch_first" else bias.double()[:, None])


def assert_the_same_whatever_the_threads(run: Callable[[], torch.Tensor]) -> None:
    """On a CPU, bit by bit."""
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3, 2):
            torch.set_num_threads(count)
            results.append(run())
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(result, results[0]) for result in results)
