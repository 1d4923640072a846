"""When an energy counter advanced: between two questions, and far more exactly if it keeps time.

NVML's counter on an H200 advances every 100 ms to the millisecond, but asking it takes 2 to 20 ms. An advance is then
known to have been within some milliseconds; of many at equal distances, what fits all of them is known better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy

_FEWEST = 5
"""Two numbers, a phase and a period, that fit four advances prove little."""

_MOST_OFF = 0.01
"""By how much the period may differ from the median of the distances that are seen, relative to it."""

_CANDIDATES = 2001
"""Periods that are tried: at a hundred periods' distance they are 0.1 % of a period apart."""

_NARROW = 0.25
"""Where an advance is known less exactly than to a quarter of the period, advances may have been missed."""


@dataclass(frozen=True)
class Advance:
    """An advance that was seen.

    Attributes:
        after: when the last question was asked that had the old value for an answer, in seconds.
        by: when the first answer with the new value was there.
        joules: the new value.
    """

    after: float
    by: float
    joules: float


@dataclass(frozen=True)
class Moments:
    """When a counter advanced.

    Attributes:
        seconds: the moment of each advance.
        uncertainty_s: by how much the distance of two that follow each other may be wrong. All may be earlier or later
            together by some more, which moves a window and does not change its length.
    """

    seconds: numpy.ndarray
    uncertainty_s: float


def regular_moments(advances: Sequence[Advance]) -> Moments | None:
    """The moments of a counter that advances at equal distances, as well as the questions allow.

    A period P and a phase t fit if after < t + k P <= by for each advance k. What is returned is in the middle of all
    that fit, and as uncertain as their periods differ; if none does, what misses least, as uncertain as it misses.

    Args:
        advances: in order; some may be missing in between.

    Returns:
        The moments; None for too few advances, or for a counter that advances about as often as it is asked.
    """
    if len(advances) < _FEWEST:
        return None
    after, by = (numpy.array([getattr(advance, name) for advance in advances]) for name in ("after", "by"))
    period = float(numpy.median(numpy.diff(by)))
    if period <= 0 or float(numpy.median(by - after)) > _NARROW * period:
        return None
    places = numpy.concatenate([[0.0], numpy.cumsum(numpy.round(numpy.diff(by) / period))])
    periods = period * (1 + numpy.linspace(-_MOST_OFF, _MOST_OFF, _CANDIDATES))
    lowest = (after - numpy.outer(periods, places)).max(axis=1)
    highest = (by - numpy.outer(periods, places)).min(axis=1)
    room = highest - lowest
    fits = room >= 0
    best = int(numpy.flatnonzero(fits).mean().round()) if fits.any() else int(room.argmax())
    moments = (lowest[best] + highest[best]) / 2 + periods[best] * places
    if not fits.any():
        return Moments(moments, float(-room[best]))
    return Moments(moments, float(numpy.ptp(periods[fits]) / 2))
