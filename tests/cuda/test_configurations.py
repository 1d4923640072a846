"""Every way that is compiled in to multiply on CUDA, on problems of any shape, against float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ksmm.problem import Problem
from tests.cuda.products import assert_close, inputs, stored_as, tolerance
from tests.shapes import bias_of, examples, expected, poison, problems

pytestmark = pytest.mark.cuda


@pytest.mark.parametrize("order", ("canonical", "packed"))
@given(problem=problems("cuda"), with_bias=st.booleans())
@examples
def test_any_shape(operator, order: str, problem: Problem, with_bias: bool) -> None:
    x, weight = inputs(problem)
    bias = bias_of(problem, with_bias)
    reference = expected(x, weight, problem.layout, bias)
    stored = stored_as(weight, order)
    for entry in torch.ops.ksmm.configurations(x, stored, problem.layout):
        number, name = entry.split(" ", 1)
        results = []
        for _ in range(2):
            poison(problem)
            results.append(operator(x, stored, problem.layout, bias, "default", int(number)))
        try:
            assert_close(results[0], reference, tolerance(problem.dtype, problem.pattern))
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
        assert torch.equal(*results), f"{name}: two runs differ"
