"""Against the rooflines that were worked out by hand for one NVIDIA H200."""

import pytest
import torch

from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, Problem
from ksmm.roofline import attainable_seconds, is_memory_bound
from ksmm.work import Work

COPY = 4.29e12
RATES = {"float32": 51.0e12, "float16": 723e12}


@pytest.mark.parametrize(
    ("pattern", "dtype", "milliseconds"),
    [
        ("1,192,48,2", "float32", 0.018),
        ("1,192,48,2", "float16", 0.006),
        ("1,768,192,2", "float32", 0.290),
        ("1,768,192,2", "float16", 0.023),
        ("4,64,64,16", "float32", 0.258),
        ("4,64,64,16", "float16", 0.096),
        ("8,192,192,16", "float32", 4.638),
        ("8,192,192,16", "float16", 0.577),
        ("2,1024,1024,16", "float32", 32.98),
        ("2,1024,1024,16", "float16", 2.330),
        ("96,48,48,16", "float16", 1.727),
    ],
)
def test_attainable_time_on_an_h200(pattern, dtype, milliseconds):
    problem = Problem(Pattern.parse(pattern), 25088, DTYPES[dtype], "batch_first", "cuda")
    seconds = attainable_seconds(problem, COPY, RATES[dtype])
    assert seconds * 1e3 == pytest.approx(milliseconds, rel=0.005, abs=0.0005)


def test_the_larger_of_the_two_bounds():
    problem = Problem(Pattern(1, 2, 3, 4), 5, torch.float32, "batch_last")
    assert problem.bytes_moved == 4 * (5 * 8 + 5 * 12 + 24)
    assert problem.operations == 2 * 5 * 24
    assert attainable_seconds(problem, 1.0, 1e9) == problem.bytes_moved
    assert attainable_seconds(problem, 1e9, 1.0) == problem.operations
    assert is_memory_bound(problem, 1.0, 1e9)
    assert not is_memory_bound(problem, 1e9, 1.0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_work_is_told_by_names_as_by_pytorch(dtype):
    pattern, batch_size = Pattern(3, 5, 7, 2), 11
    problem, work = Problem(pattern, batch_size, DTYPES[dtype], "batch_last"), Work(pattern, batch_size, dtype)
    assert (work.bytes_moved, work.operations) == (problem.bytes_moved, problem.operations)


@pytest.mark.parametrize("ceilings", [(0, 1), (1, 0), (-1, 1), (1, float("nan"))])
def test_a_ceiling_that_is_none(ceilings):
    with pytest.raises(ValueError, match="a measured ceiling is positive"):
        attainable_seconds(Problem(Pattern(1, 2, 3, 4), 5, torch.float32, "batch_last"), *ceilings)
