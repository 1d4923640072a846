"""The timer (appendix B.1): medians over samples of several products each, more where they scatter, never for ever."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from ksmm.measure.protocol import Protocol
from ksmm.measure.rest import rest
from ksmm.measure.samples import interquartile_range, median

TIMER_WARM_UP_RUNS = 2
"""torch.utils.benchmark.Timer.timeit runs the product so often, untimed, before each sample."""

CUDA_GRAPH_BELOW_S = 200e-6
"""Products faster than this are also replayed from a CUDA graph: launching them costs a good part of their time.

It is this large so that of implementations whose products take a few microseconds each has a time in a graph: the three
launches of bmm take a slow host 60 to 100 µs.
"""

clock: Callable[[], float] = time.perf_counter
"""Seconds since some moment; tests put one of their own in its place."""

Run = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """The samples of one number.

    Attributes:
        samples_s: seconds of one product, one entry per sample.
        runs_per_sample: products per sample.
        protocol_met: whether samples and runs are as many as the protocol asks for.
    """

    samples_s: tuple[float, ...]
    runs_per_sample: int
    protocol_met: bool


@contextlib.contextmanager
def strict_precision() -> Iterator[None]:
    """TF32 off in float32, sums in float32 in float16 and bfloat16; what was set before is restored."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = (
        torch.get_float32_matmul_precision(),
        cudnn.allow_tf32,
        matmul.allow_fp16_reduced_precision_reduction,
        matmul.allow_bf16_reduced_precision_reduction,
    )
    try:
        _set_precision("highest", False, False, False)
        yield
    finally:
        _set_precision(*before)


def _set_precision(float32: str, convolutions: bool, float16: bool, bfloat16: bool) -> None:
    torch.set_float32_matmul_precision(float32)
    torch.backends.cudnn.allow_tf32 = convolutions
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = float16
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = bfloat16


def synchronise(device_type: str) -> None:
    """Waits until the device has done all that it was given."""
    if device_type == "cuda" and torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds_of(run: Run, device_type: str) -> float:
    """Wall time of a single product, the device idle before and after."""
    synchronise(device_type)
    start = clock()
    run()
    synchronise(device_type)
    return clock() - start


def estimate_seconds(run: Run, protocol: Protocol, device_type: str) -> float:
    """The median of up to five single products, fewer if they take long: one alone may have met a disturbance."""
    times = [seconds_of(run, device_type)]
    while len(times) < 5 and sum(times) < protocol.max_seconds / 50:
        times.append(seconds_of(run, device_type))
    return median(tuple(times))


def time_product(run: Run, protocol: Protocol, device_type: str, estimate_s: float) -> Timing:
    """Samples a product that has been warmed up.

    Takes min_samples samples of runs_per_sample products, then more until the IQR is at most target_relative_iqr of the
    median, until there are max_samples, or until another one would pass max_seconds. Where min_samples do not
    fit into max_seconds there are fewer products in each, then fewer samples, but always one. A GPU at its power limit
    rests first.

    Args:
        run: one product.
        protocol: see Protocol.
        device_type: "cpu" or "cuda".
        estimate_s: seconds that one product is expected to take.
    """
    # Importing it asks CUDA for its devices, which a job must not do before it has locked one of them.
    from torch.utils.benchmark import Timer

    runs = _affordable_runs(protocol, estimate_s)
    timer = Timer(
        stmt="run()",
        globals={"run": run},
        timer=clock if device_type == "cpu" else _cuda_clock,
        num_threads=torch.get_num_threads(),
    )
    if device_type == "cuda":
        torch.cuda.synchronize()
        rest(protocol.rest_seconds)
    samples: list[float] = []
    start = clock()
    while not _enough(samples, protocol, clock() - start):
        samples.append(timer.timeit(runs).median)
    met = len(samples) >= protocol.min_samples and runs == protocol.runs_per_sample
    return Timing(tuple(samples), runs, met)


def _affordable_runs(protocol: Protocol, estimate_s: float) -> int:
    """Products per sample such that min_samples fit into max_seconds, the timer's own warm-up included."""
    affordable = protocol.max_seconds / (protocol.min_samples * max(estimate_s, 1e-9)) - TIMER_WARM_UP_RUNS
    return max(1, min(protocol.runs_per_sample, int(affordable)))


def _enough(samples: list[float], protocol: Protocol, elapsed_s: float) -> bool:
    if not samples:
        return False
    next_would_pass = elapsed_s * (len(samples) + 1) / len(samples) > protocol.max_seconds
    if next_would_pass or len(samples) >= protocol.max_samples:
        return True
    if len(samples) < protocol.min_samples:
        return False
    values = tuple(samples)
    return interquartile_range(values) <= protocol.target_relative_iqr * median(values)


def _cuda_clock() -> float:
    torch.cuda.synchronize()
    return clock()


def time_cuda_graph(run: Run, protocol: Protocol, estimate_s: float) -> Timing:
    """The same product without the cost of launching it: runs_per_sample products in one CUDA graph, replayed.

    Raises:
        RuntimeError: the product cannot be captured (it synchronises, say).
    """
    graph = captured(run, protocol.runs_per_sample)
    replays = dataclasses.replace(protocol, runs_per_sample=1)
    timing = time_product(graph.replay, replays, "cuda", estimate_s * protocol.runs_per_sample)
    samples = tuple(sample / protocol.runs_per_sample for sample in timing.samples_s)
    return Timing(samples, protocol.runs_per_sample, timing.protocol_met)


def captured(run: Run, runs: int, warm_up_runs: int = 1) -> torch.cuda.CUDAGraph:
    """A CUDA graph of several products, one after the other.

    Args:
        run: one product.
        runs: how many.
        warm_up_runs: products before, on the stream that is captured; what a library sets up at its first calls must
            not be captured.

    Raises:
        RuntimeError: the product cannot be captured (it synchronises, say).
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warm_up_runs):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(runs):
            run()
    return graph
