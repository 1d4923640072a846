"""What the benchmark scripts share: medians by the pipeline's own timer."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ksmm.implementations import Implementation, get_implementation
from ksmm.measure import timer
from ksmm.measure.inputs import make_inputs
from ksmm.measure.protocol import Protocol
from ksmm.measure.samples import median
from ksmm.problem import Problem


def seconds_of_run(run: Callable[[], object], device_type: str, protocol: Protocol) -> float:
    """The median time of one call, warmed up."""
    run()
    estimate = timer.estimate_seconds(run, protocol, device_type)
    return median(timer.time_product(run, protocol, device_type, estimate).samples_s)


def implementation_for(problem: Problem, name: str) -> Implementation:
    """The implementation of that name, ready to be used.

    Raises:
        ValueError: there is none, or it does not take the problem.
    """
    implementation = get_implementation(name)
    reason = implementation.supports(problem)
    if reason is not None:
        raise ValueError(f"{name} does not take {problem.pattern} in {problem.layout}: {reason}")
    return implementation


def seconds_of_product(problem: Problem, name: str, protocol: Protocol) -> float:
    """The median time of one product, from a CUDA graph where launching it would rule.

    Raises:
        ValueError: there is no implementation of that name, or it does not take the problem.
    """
    implementation = implementation_for(problem, name)
    inputs = make_inputs(problem, protocol.seed)
    packed = implementation.pack(inputs.weight, problem.layout)
    with timer.strict_precision(), torch.no_grad():
        return seconds_without_launch(lambda: implementation.matmul(packed, inputs.x), problem.device_type, protocol)


def seconds_without_launch(run: Callable[[], object], device_type: str, protocol: Protocol) -> float:
    """The median time of one call, from a CUDA graph where launching it would rule."""
    seconds = seconds_of_run(run, device_type, protocol)
    if device_type == "cuda" and seconds < timer.CUDA_GRAPH_BELOW_S:
        return median(timer.time_cuda_graph(run, protocol, seconds).samples_s)
    return seconds
