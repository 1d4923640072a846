import dataclasses
import math

import pytest
import torch

from ksmm.implementations import implementations
from ksmm.measure import check
from ksmm.measure.inputs import Inputs, make_inputs
from ksmm.patterns import Pattern
from ksmm.problem import LAYOUTS, Problem
from ksmm.reference import reference_matmul, relative_error

PROBLEM = Problem(Pattern(2, 5, 7, 3), 41, torch.float32, "batch_first")


@pytest.fixture(params=LAYOUTS)
def problem(request):
    return dataclasses.replace(PROBLEM, layout=request.param)


def right(problem: Problem) -> tuple[torch.Tensor, Inputs]:
    inputs = make_inputs(problem, seed=0)
    return reference_matmul(inputs.weight, inputs.x, problem.layout).to(problem.dtype), inputs


@pytest.mark.parametrize(("chunk", "blocks"), [(100, 5 * 21), (36 * 41, 5), (3 * 36 * 41, 2), (2**24, 1)])
def test_it_equals_the_error_of_the_whole_when_cut_into_blocks(problem, monkeypatch, chunk, blocks):
    monkeypatch.setattr(check, "_CHUNK_ELEMENTS", chunk)
    problem = dataclasses.replace(problem, pattern=Pattern(5, 5, 7, 3))
    y, inputs = right(problem)
    y = y * (1 + 1e-3 * torch.randn_like(y))
    whole = relative_error(y, reference_matmul(inputs.weight, inputs.x, problem.layout))
    reference = check.Reference(problem)
    assert len(list(reference._blocks())) == blocks
    assert reference.relative_error(y, inputs) == pytest.approx(whole, rel=1e-9)
    assert reference.relative_error(y, inputs) == pytest.approx(whole, rel=1e-9)  # from the blocks kept
    assert check.Reference(problem, keep_bytes=0).relative_error(y, inputs) == pytest.approx(whole, rel=1e-9)


def test_one_reference_serves_both_layouts():
    reference = check.Reference(PROBLEM)
    for layout in LAYOUTS:
        y, inputs = right(dataclasses.replace(PROBLEM, layout=layout))
        assert reference.relative_error(y, inputs) < 1e-7


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("position", [(0, 0), (-1, -1), (17, 3)])
def test_one_entry_that_is_not_finite_never_passes(problem, value, position):
    y, inputs = right(problem)
    y[position] = value
    error = check.Reference(problem).relative_error(y, inputs)
    assert "NaN or infinity" in check.fault_of_error(error, math.inf)


def test_one_wrong_entry_anywhere_is_found(problem):
    y, inputs = right(problem)
    y[-1, -1] += 0.1
    error = check.Reference(problem).relative_error(y, inputs)
    assert "the tolerance" in check.fault_of_error(error, check.tolerance(problem.dtype, problem.pattern.c))


def test_results_that_cannot_be_compared():
    y, _ = right(PROBLEM)
    assert check.fault(y, PROBLEM) is None
    assert "shape" in check.fault(y.T, PROBLEM)
    assert "dtype" in check.fault(y.double(), PROBLEM)
    assert "NoneType" in check.fault(None, PROBLEM)


def keep_mantissa_bits(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Rounds float32 to so many bits after the leading one; TF32 has 10."""
    mantissa, exponent = torch.frexp(values)
    return torch.ldexp(torch.round(mantissa * 2 ** (bits + 1)) / 2 ** (bits + 1), exponent)


@pytest.mark.parametrize("c", [1, 48, 1024, 10**6])
def test_tf32_is_never_within_the_tolerance_of_float32(c):
    problem = Problem(Pattern(1, 8, min(c, 1024), 1), 64, torch.float32, "batch_first")
    inputs = make_inputs(problem, seed=0)
    rounded = Inputs(keep_mantissa_bits(inputs.weight, 10), keep_mantissa_bits(inputs.x, 10), "batch_first")
    y = reference_matmul(rounded.weight, rounded.x, "batch_first").float()
    error = check.Reference(problem).relative_error(y, inputs)
    assert 1e-4 < error < 5e-4
    assert check.fault_of_error(error, check.tolerance(torch.float32, c))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("c", [48, 1024])
def test_accumulating_in_the_dtype_itself_does_not_pass(dtype, c):
    problem = Problem(Pattern(1, 8, c, 1), 64, dtype, "batch_first")
    inputs = make_inputs(problem, seed=0)
    weight = inputs.weight.view(8, c)
    y = torch.zeros(64, 8, dtype=dtype)
    for k in range(c):
        y = y + inputs.x[:, k : k + 1] * weight[:, k]
    error = check.Reference(problem).relative_error(y, inputs)
    assert check.fault_of_error(error, check.tolerance(dtype, c))


@pytest.mark.parametrize("name", sorted(implementations()))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("c", [2, 48, 1024])
def test_every_implementation_is_within_it(name, dtype, c, device):
    problem = Problem(Pattern(2, 16, c, 2), 128, dtype, "batch_last", device)
    implementation = implementations()[name]
    reason = implementation.supports(problem)
    if reason:
        pytest.skip(reason)
    inputs = make_inputs(problem, seed=0)
    y = implementation.matmul(implementation.pack(inputs.weight, "batch_last"), inputs.x)
    error = check.Reference(problem).relative_error(y, inputs)
    assert error < check.tolerance(dtype, c)
