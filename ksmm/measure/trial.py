"""Tries a product on parts of the batch: one that would take an hour cannot be stopped once it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ksmm.measure import timer
from ksmm.measure.inputs import first_of_batch
from ksmm.measure.protocol import Protocol
from ksmm.problem import Problem

_DOUBTFUL = 32
"""A trial up to so many times the limit may have met a compilation (lazylinop compiles its kernels at the first
product), so a second one decides."""
_TRIES = 5
"""Runs of one product at most, the fastest of which counts, while all of them together take less than the limit: other
processes hold a machine up for a while, whatever the product takes."""
_MARGIN = 1.25
"""So many times the limit, by the last trial in proportion to the batch, is too slow without trying the whole: what a
product costs whatever its batch is little beside that, and sparse products take a larger share of a larger batch."""


def reason_too_slow(
    matmul: Callable[[torch.Tensor], torch.Tensor],
    x: torch.Tensor,
    problem: Problem,
    protocol: Protocol,
    fractions: Sequence[int],
) -> str | None:
    """Why a product takes longer than max_seconds_per_run, as far as parts of its batch show; None if they do not.

    These runs warm up, too.

    Args:
        matmul: the product with X, or with a part of its batch.
        x: all of X, in the layout of the problem.
        problem: what is computed.
        protocol: has the limit.
        fractions: of the batch that are tried, 8 for an eighth, the smallest part first.
    """
    limit = protocol.max_seconds_per_run
    for fraction in fractions:
        count = problem.batch_size // fraction
        if count == 0:
            continue
        part = first_of_batch(x, problem.layout, count)
        # a part that exceeds the limit says it of the whole, and so does the last in proportion
        most = min(limit, _MARGIN * limit * count / problem.batch_size) if fraction == fractions[-1] else limit
        seconds = fastest_seconds(lambda part=part: matmul(part), problem.device_type, most, limit)
        if seconds > most:
            return too_slow(count, seconds, protocol, problem.batch_size)
    return None


def fastest_seconds(
    run: Callable[[], object], device_type: str, most: float, limit: float, doubtful: float = _DOUBTFUL
) -> float:
    """Seconds of a product: of its first run where that took `most` at the most, else of the fastest of some.

    Args:
        run: one product.
        device_type: "cpu" or "cuda".
        most: what is not too slow.
        limit: seconds within which runs are repeated, up to five of them.
        doubtful: a first run of up to so many times the limit is repeated once in any case.
    """
    times = [timer.seconds_of(run, device_type)]
    while min(times) > most and len(times) < _TRIES:
        again = times[0] < doubtful * limit if len(times) == 1 else sum(times) < limit
        if not again:
            break
        times.append(timer.seconds_of(run, device_type))
    return min(times)


def too_slow(count: int, seconds: float, protocol: Protocol, batch_size: int) -> str:
    """The reason of a measurement whose product took `seconds` on `count` of `batch_size`."""
    limit = protocol.max_seconds_per_run
    about = "" if seconds > limit else f", one of {batch_size} about {seconds * batch_size / count:.3g} s"
    return f"one product on a batch of {count} takes {seconds:.3g} s{about}; max_seconds_per_run is {limit:g} s"
