"""Passes of several parts of the batch that run beside each other, on streams of their own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from ksmm.patterns import Pattern
from ksmm.problem import Problem
from tests.cuda.products import assert_close, inputs, number_of, stored_as, tolerance
from tests.shapes import bias_of, expected

pytestmark = pytest.mark.cuda

PATTERN = Pattern(2, 96, 64, 24)
BATCHES = (257, 5000, 5001, 25088)
"""Two parts, of which the last one has one row; parts by batch_last (multiples of 4) and by d = 1; the benchmark's."""
KINDS = (
    ("overlapped passes", torch.float32),
    ("overlapped passes strict", torch.float32),
    ("overlapped passes", torch.float16),
    ("overlapped passes", torch.bfloat16),
    ("overlapped two passes", torch.float16),
    ("overlapped two passes", torch.bfloat16),
)
kinds = pytest.mark.parametrize(("name", "dtype"), KINDS, ids=str)


@kinds
@pytest.mark.parametrize("batch", BATCHES)
def test_parts_come_to_the_whole_product_each_time(operator, name: str, dtype: torch.dtype, batch: int) -> None:
    problem = Problem(PATTERN, batch, dtype, "batch_first", "cuda")
    x, weight = inputs(problem)
    bias, stored = bias_of(problem, True), stored_as(weight, "packed")
    number = number_of(name, x, stored)
    reference = expected(x, weight, "batch_first", bias)
    first = operator(x, stored, "batch_first", bias, "default", number)
    assert_close(first, reference, tolerance(dtype, PATTERN))
    for _ in range(20):  # no waiting in between: calls follow each other on the same side streams
        assert torch.equal(operator(x, stored, "batch_first", bias, "default", number), first)


@kinds
def test_all_of_it_is_between_what_is_before_and_after_on_the_stream(operator, name: str, dtype: torch.dtype) -> None:
    problem = Problem(PATTERN, 5000, dtype, "batch_first", "cuda")
    x, weight = inputs(problem)
    stored = stored_as(weight, "packed")
    number = number_of(name, x, stored)
    late, stream = torch.zeros_like(x), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # what did not wait would read the zeros, ...
        late.copy_(x)
        y = operator(late, stored, "batch_first", None, "default", number)
        copy = y.clone()
        late.zero_()  # ... or these
        y.fill_(float("nan"))
    stream.synchronize()
    assert_close(copy, expected(x, weight, "batch_first", None), tolerance(dtype, PATTERN))


@kinds
def test_replays_from_graphs_that_were_captured_side_by_side(operator, name: str, dtype: torch.dtype) -> None:
    problem = Problem(PATTERN, 5000, dtype, "batch_first", "cuda")
    x, weight = inputs(problem)
    stored = stored_as(weight, "packed")
    number = number_of(name, x, stored)
    operator(x[:8], stored, "batch_first")  # loads the kernel, but needs no second stream
    torch.cuda.synchronize()
    static, other, graphs, results = x.clone(), x.clone(), [torch.cuda.CUDAGraph() for _ in range(2)], []
    for graph in graphs:
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            results.append(operator(static, stored, "batch_first", None, "default", number))
            # elsewhere, while side streams belong to the capture
            with ThreadPoolExecutor(1) as pool:
                stream = torch.cuda.Stream()
                aside = pool.submit(_on_stream, stream, operator, other, stored, number).result()
        stream.synchronize()
        assert_close(aside, expected(other, weight, "batch_first", None), tolerance(dtype, PATTERN))
    for graph, y in zip(graphs, results, strict=True):
        for _ in range(3):
            static.copy_(torch.randn_like(static))
            y.fill_(float("nan"))
            graph.replay()
            assert_close(y, expected(static, weight, "batch_first", None), tolerance(dtype, PATTERN))


def _on_stream(stream: torch.cuda.Stream, operator, x: torch.Tensor, weight: torch.Tensor, number: int) -> torch.Tensor:
    with torch.cuda.stream(stream):
        return operator(x, weight, "batch_first", None, "default", number)


@kinds
def test_threads_with_streams_of_their_own(operator, name: str, dtype: torch.dtype) -> None:
    problem = Problem(PATTERN, 5000, dtype, "batch_first", "cuda")
    operands = [inputs(problem) for _ in range(4)]
    number = number_of(name, operands[0][0], stored_as(operands[0][1], "packed"))

    def work(index: int) -> torch.Tensor:
        x, weight = operands[index]
        stream = torch.cuda.Stream()
        stored = stored_as(weight, "packed")
        stream.wait_stream(torch.cuda.current_stream())
        for _ in range(30):
            y = _on_stream(stream, operator, x, stored, number)
        stream.synchronize()
        return y

    torch.cuda.synchronize()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    for (x, weight), y in zip(operands, results, strict=True):
        assert_close(y, expected(x, weight, "batch_first", None), tolerance(dtype, PATTERN))
