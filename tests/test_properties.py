"""The operator on the CPU, on problems of any shape, against float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ksmm.implementations import get_implementation
from ksmm.problem import Problem
from tests.cuda.products import assert_close, inputs, tolerance
from tests.shapes import bias_of, examples, expected, poison, problems


@given(problem=problems("cpu"), with_bias=st.booleans())
@examples
def test_any_shape(problem: Problem, with_bias: bool) -> None:
    reason = get_implementation("kernel").supports(problem)
    if reason is not None:
        pytest.skip(reason)
    x, weight = inputs(problem, "cpu")
    bias = bias_of(problem, with_bias)
    poison(problem)
    y = torch.ops.ksmm.ks_matmul(x, weight, problem.layout, bias)
    assert_close(y, expected(x, weight, problem.layout, bias), tolerance(problem.dtype, problem.pattern))
