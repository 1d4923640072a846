"""The CUDA kernel as part of a program: streams, graphs, devices, gradients, and more than 2³¹ elements."""

from __future__ import annotations

import concurrent.futures

import pytest
import torch

import ksmm
from ksmm import Pattern
from ksmm.problem import LAYOUTS, Problem
from ksmm.reference import reference_matmul
from tests.conftest import TOLERANCES
from tests.cuda.products import assert_close, inputs, stored_as, tolerance

pytestmark = pytest.mark.cuda

every_dtype = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
every_layout = pytest.mark.parametrize("layout", LAYOUTS)
PATTERN = Pattern(2, 40, 56, 3)
WIDE = Pattern(2, 64, 48, 16)  # the tile that asks for more than 48 KiB of shared memory


def assert_gradients_close(
    x: torch.Tensor, weight: torch.Tensor, layout: str, y_gradient: torch.Tensor, allowed: float
) -> None:
    """The gradients that x and the weight have, against those of the reference: relative errors of norms."""
    x64, weight64 = (tensor.detach().double().requires_grad_() for tensor in (x, weight))
    reference_matmul(weight64, x64, layout).backward(y_gradient.double())
    for found, expected in ((x.grad, x64.grad), (weight.grad, weight64.grad)):
        error = torch.linalg.vector_norm(found.double() - expected) / torch.linalg.vector_norm(expected)
        assert error.item() < allowed


@every_dtype
@every_layout
def test_runs_on_the_current_stream(operator, layout: str, dtype: torch.dtype) -> None:
    problem = Problem(PATTERN, 500, dtype, layout, "cuda")
    x, weight = inputs(problem)
    late = torch.zeros_like(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # a kernel on another stream would read the zeros
        late.copy_(x)
        y = operator(late, weight, layout)
    stream.synchronize()
    assert_close(y, reference_matmul(weight, x, layout), tolerance(dtype, PATTERN))


@every_dtype
@every_layout
@pytest.mark.parametrize("pattern", (Pattern(1, 256, 256, 1), WIDE), ids=str)
def test_is_the_first_thing_that_a_thread_asks_of_the_device(
    operator, pattern: Pattern, layout: str, dtype: torch.dtype
) -> None:
    problem = Problem(pattern, 512, dtype, layout, "cuda")
    x, weight = inputs(problem)
    weight = stored_as(weight, "packed")
    torch.empty(problem.output_shape, dtype=dtype, device="cuda")  # freed, so that the thread need not allocate
    torch.cuda.synchronize()
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as thread:
        y = thread.submit(operator, x, weight, layout).result()
    assert_close(y, reference_matmul(weight, x, layout), tolerance(dtype, pattern))


@every_dtype
@every_layout
@pytest.mark.parametrize("pattern", (PATTERN, WIDE), ids=str)
def test_replays_from_a_graph(operator, pattern: Pattern, layout: str, dtype: torch.dtype) -> None:
    problem = Problem(pattern, 100, dtype, layout, "cuda")
    x, weight = inputs(problem)
    weight = stored_as(weight, "packed")
    static = x.clone()
    operator(static, weight, layout)  # loads the kernel before the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = operator(static, weight, layout)
    for _ in range(2):
        fresh, _ = inputs(problem)
        static.copy_(fresh)
        y.fill_(float("nan"))
        graph.replay()
        assert_close(y, reference_matmul(weight, fresh, layout), tolerance(dtype, pattern))


@every_dtype
@every_layout
@pytest.mark.parametrize("pattern", (PATTERN, WIDE), ids=str)
def test_second_device(operator, pattern: Pattern, layout: str, dtype: torch.dtype) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("only one CUDA device")
    problem = Problem(pattern, 77, dtype, layout, "cuda")
    for device in ("cuda:0", "cuda:1", "cuda:0"):
        x, weight = inputs(problem, device)
        y = operator(x, weight, layout)
        assert y.device == torch.device(device)
        assert_close(y, reference_matmul(weight, x, layout), tolerance(dtype, pattern))


@every_dtype
@every_layout
@pytest.mark.parametrize("present", (0, 1))
def test_auto_multiplies_where_the_operands_are(operator, present: int, layout: str, dtype: torch.dtype) -> None:
    """And not on the present device, which is the one that a choice is looked up for where nothing else is said."""
    if torch.cuda.device_count() < 2:
        pytest.skip("only one CUDA device")
    problem = Problem(PATTERN, 333, dtype, layout, "cuda")
    with torch.cuda.device(present):
        for device in ("cuda:0", "cuda:1"):
            x, weight = (tensor.requires_grad_() for tensor in inputs(problem, device))
            y = ksmm.ks_matmul(x, weight, layout, "auto")
            y_gradient = torch.randn_like(y)
            y.backward(y_gradient)
            assert {y.device, x.grad.device, weight.grad.device} == {torch.device(device)}
            expected = reference_matmul(weight.detach(), x.detach(), layout)
            assert_close(y.detach(), expected, tolerance(dtype, PATTERN))
            assert_gradients_close(x, weight, layout, y_gradient, 2 * tolerance(dtype, PATTERN))


@every_dtype
@every_layout
@pytest.mark.parametrize("pattern", (PATTERN, WIDE, Pattern(1, 192, 48, 2), Pattern(6, 64, 64, 1)), ids=str)
def test_gradients(operator, pattern: Pattern, layout: str, dtype: torch.dtype) -> None:
    problem = Problem(pattern, 64, dtype, layout, "cuda")
    x, weight = (tensor.requires_grad_() for tensor in inputs(problem))
    y = ksmm.ks_matmul(x, weight, layout, "kernel")
    y_gradient = torch.randn_like(y)
    y.backward(y_gradient)
    assert_gradients_close(x, weight, layout, y_gradient, 2 * tolerance(dtype, pattern))


@every_layout
def test_opcheck(operator, layout: str) -> None:
    problem = Problem(Pattern(2, 5, 7, 3), 9, torch.float32, layout, "cuda")
    x, weight = (tensor.requires_grad_() for tensor in inputs(problem))
    torch.library.opcheck(operator.default, (x, weight, layout))


def _skip_without_memory(needed: int) -> None:
    free, _ = torch.cuda.mem_get_info()
    if free < needed:
        pytest.skip(f"needs {needed / 2**30:.0f} GiB of free GPU memory, there are {free / 2**30:.0f}")


@pytest.mark.parametrize("dtype", (torch.float16, torch.float32), ids=str)
@every_layout
@pytest.mark.parametrize("entries", [(1, 8, 8, 8), (2, 32, 32, 1), (1, 4, 4, 16)], ids=str)
def test_more_than_2_to_the_31_elements(operator, entries, layout: str, dtype: torch.dtype) -> None:
    pattern = Pattern(*entries)
    batch = 2**31 // pattern.columns + 1001
    _skip_without_memory(3 * batch * pattern.columns * dtype.itemsize + 2**30)
    problem = Problem(pattern, batch, dtype, layout, "cuda")
    x, weight = inputs(problem)
    y = operator(x, stored_as(weight, "packed"), layout)
    dim = 0 if layout == "batch_first" else 1
    for start in (0, batch // 2, batch - 500):
        x_part, y_part = x.narrow(dim, start, 500), y.narrow(dim, start, 500)
        assert_close(y_part, reference_matmul(weight, x_part, layout), tolerance(dtype, pattern))


@every_layout
def test_row_stride_beyond_2_to_the_31(operator, layout: str) -> None:
    pattern = Pattern(1, 3, 2, 1)
    _skip_without_memory(2**34)
    problem = Problem(pattern, 2, torch.float16, layout, "cuda")
    x, weight = inputs(problem)
    view = torch.empty(2**31 + 100, device="cuda", dtype=torch.float16).as_strided((2, 2), (2**31 + 8, 1))
    view.copy_(x)
    y = operator(view, weight, layout)
    assert_close(y, reference_matmul(weight, x, layout), tolerance(torch.float16, pattern))
