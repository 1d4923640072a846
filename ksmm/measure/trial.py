"""Tries a product on parts of the batch: one that would take an hour cannot be stopped once it runs."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ksmm.measure import timer
from ksmm.measure.inputs import first_of_batch
from ksmm.measure.protocol import Protocol
from ksmm.problem import Problem

_FRACTIONS = (64, 8)
_DOUBTFUL = 32
"""A trial up to so many times the limit may have met a compilation (lazylinop compiles its kernels at the first
product) or a disturbance, so a second one decides."""
_MARGIN = 2
"""So many times the limit, by the last trial in proportion to the batch, is too slow without trying the whole: what a
product costs whatever its batch is little beside that, and sparse products take a larger share of a larger batch."""


def reason_too_slow(
    matmul: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, problem: Problem, protocol: Protocol
) -> str | None:
    """Why a product takes longer than max_seconds_per_run, as far as parts of its batch show; None if they do not.

    These runs warm up, too.

    Args:
        matmul: the product with X, or with a part of its batch.
        x: all of X, in the layout of the problem.
        problem: what is computed.
        protocol: has the limit.
    """
    limit = protocol.max_seconds_per_run
    for fraction in _FRACTIONS:
        count = problem.batch_size // fraction
        if count == 0:
            continue
        part = first_of_batch(x, problem.layout, count)
        # a part that exceeds the limit says it of the whole, and so does the last in proportion
        most = min(limit, _MARGIN * limit * count / problem.batch_size) if fraction == _FRACTIONS[-1] else limit
        seconds = timer.seconds_of(lambda part=part: matmul(part), problem.device_type)
        if most < seconds < _DOUBTFUL * limit:
            seconds = timer.seconds_of(lambda part=part: matmul(part), problem.device_type)
        if seconds > most:
            return too_slow(count, seconds, protocol, problem.batch_size)
    return None


def too_slow(count: int, seconds: float, protocol: Protocol, batch_size: int) -> str:
    """The reason of a measurement whose product took `seconds` on `count` of `batch_size`."""
    limit = protocol.max_seconds_per_run
    about = "" if seconds > limit else f", one of {batch_size} about {seconds * batch_size / count:.3g} s"
    return f"one product on a batch of {count} takes {seconds:.3g} s{about}; max_seconds_per_run is {limit:g} s"
