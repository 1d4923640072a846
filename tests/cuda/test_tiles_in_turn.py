"""Tiles that blocks ask for (float32 by halves, sectors): each is multiplied once, whoever else multiplies then."""

from __future__ import annotations

import pytest
import torch

from ksmm.patterns import Pattern
from ksmm.problem import Problem
from tests.cuda.products import assert_close, inputs, number_of, stored_as, tolerance
from tests.shapes import bias_of, expected

pytestmark = pytest.mark.cuda

PATTERN = Pattern(2, 200, 72, 44)
BATCHES = (1, 130, 4001)
"""Fewer tiles than blocks, about as many, and twenty times as many."""
names = pytest.mark.parametrize("name", ("halves first sectors 64", "halves first sectors 48"))


def operands(batch: int) -> tuple[Problem, torch.Tensor, torch.Tensor]:
    problem = Problem(PATTERN, batch, torch.float32, "batch_first", "cuda")
    x, weight = inputs(problem)
    return problem, x, stored_as(weight, "packed")


@names
@pytest.mark.parametrize("batch", BATCHES)
def test_every_tile_each_time(operator, name: str, batch: int) -> None:
    problem, x, weight = operands(batch)
    bias, number = bias_of(problem, True), number_of(name, x, weight)
    reference = expected(x, weight, "batch_first", bias)
    first = operator(x, weight, "batch_first", bias, "default", number)
    assert_close(first, reference, tolerance(torch.float32, PATTERN))
    for _ in range(20):  # no waiting in between
        y = operator(x, weight, "batch_first", bias, "default", number)
        assert torch.equal(y, first)
        y.fill_(float("nan"))  # what a tile left out of the next product would show, in the same memory


@names
def test_on_several_streams_at_a_time(operator, name: str) -> None:
    given = [operands(4001)[1:] for _ in range(3)]
    number = number_of(name, *given[0])
    alone = [operator(x, weight, "batch_first", None, "default", number) for x, weight in given]
    streams = [torch.cuda.Stream() for _ in given]
    torch.cuda.synchronize()
    for _ in range(10):
        results = []
        for stream, (x, weight) in zip(streams, given, strict=True):
            with torch.cuda.stream(stream):
                results.append(operator(x, weight, "batch_first", None, "default", number))
        torch.cuda.synchronize()
        for y, first in zip(results, alone, strict=True):
            assert torch.equal(y, first)
            y.fill_(float("nan"))


@names
def test_replayed_from_a_graph(operator, name: str) -> None:
    _, x, weight = operands(4001)
    number = number_of(name, x, weight)
    first = operator(x, weight, "batch_first", None, "default", number)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [operator(x, weight, "batch_first", None, "default", number) for _ in range(2)]
    for _ in range(5):
        for y in results:
            y.fill_(float("nan"))
        graph.replay()
        assert all(torch.equal(y, first) for y in results)


@names
@pytest.mark.parametrize("rows", ((7,), tuple(range(0, 200, 8))), ids=("some tiles", "all tiles"))
def test_tiles_that_halves_are_not_exact_enough_for(operator, name: str, rows) -> None:
    _, x, weight = operands(1000)
    weight[:, rows, 3] = 1e6  # one number makes up each sum
    number = number_of(name, x, weight)
    y = operator(x, weight, "batch_first", None, "default", number)
    strict = operator(x, weight, "batch_first", None, "strict", number_of("strict", x, weight))
    shape = (-1, PATTERN.a, PATTERN.b, PATTERN.d)
    reference = expected(x, weight, "batch_first", None).view(shape)
    squares = ((found.view(shape).double() - reference).square().sum(dim=(0, 1, 3)) for found in (y, strict))
    errors, of_strict = (sums.sqrt() for sums in squares)
    few = torch.isin(torch.arange(PATTERN.b), torch.tensor(rows)).to(errors.device)
    for which in (few, ~few):  # the former are a million times as large
        assert errors[which].norm() <= 1.1 * of_strict[which].norm()
