import dataclasses
import math

import pytest
import torch

from ksmm.measure.inputs import first_of_batch, make_inputs
from ksmm.patterns import Pattern
from ksmm.problem import Problem

PROBLEM = Problem(Pattern(2, 3, 64, 5), 500, torch.float32, "batch_first")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_both_layouts_hold_the_same_values(device, dtype):
    first = dataclasses.replace(PROBLEM, dtype=dtype, device_type=device)
    last = dataclasses.replace(first, layout="batch_last")
    one, other = make_inputs(first, seed=3), make_inputs(last, seed=3)
    assert torch.equal(one.weight, other.weight)
    assert torch.equal(one.x, other.x.T)
    assert torch.equal(one.x_batch_first, other.x_batch_first)
    assert one.x.is_contiguous()
    assert other.x.is_contiguous()
    assert one.x.shape == first.input_shape
    assert other.x.shape == last.input_shape


def test_the_seed_alone_decides():
    one = make_inputs(PROBLEM, seed=1)
    torch.manual_seed(99)
    assert torch.equal(one.x, make_inputs(PROBLEM, seed=1).x)
    assert not torch.equal(one.x, make_inputs(PROBLEM, seed=2).x)


def test_weights_are_uniform_and_x_is_standard_normal():
    inputs = make_inputs(PROBLEM, seed=0)
    bound = 1 / math.sqrt(PROBLEM.pattern.c)
    assert inputs.weight.abs().max() <= bound
    assert inputs.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)
    assert inputs.x.mean().item() == pytest.approx(0, abs=0.01)
    assert inputs.x.std().item() == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("layout", ["batch_first", "batch_last"])
def test_the_first_of_a_batch_is_a_contiguous_smaller_problem(layout):
    problem = dataclasses.replace(PROBLEM, layout=layout)
    part = first_of_batch(make_inputs(problem, seed=0).x, layout, 7)
    assert part.shape == dataclasses.replace(problem, batch_size=7).input_shape
    assert part.is_contiguous()
