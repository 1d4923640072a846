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

_MOST_LEFT = 0.9
"""The share of the advances that must fit."""

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
        places: which of the advances these are; those that do not fit are left out.
        seconds: the moment of each.
        uncertainty_s: by how much the distance of two that follow each other may be wrong. All may be earlier or later
            together by some more, which moves a window and does not change its length.
    """

    places: list[int]
    seconds: numpy.ndarray
    uncertainty_s: float


def regular_moments(advances: Sequence[Advance]) -> Moments | None:
    """The moments of a counter that advances at equal distances, as well as the questions allow.

    A period P and a phase t fit if after < t + k P <= by for each advance k. What is returned is in the middle of all
    that fit, and as uncertain as their periods differ. Where none does, up to a tenth of the advances are left out, one
    after the other, always the one in whose absence the others miss least: one that the driver was late with.

    Args:
        advances: in order; some may be missing in between.

    Returns:
        The moments; None for too few advances, for a counter that advances about as often as it is asked, and for one
        that keeps no time.
    """
    if len(advances) < _FEWEST:
        return None
    after, by = (numpy.array([getattr(advance, name) for advance in advances]) for name in ("after", "by"))
    period = float(numpy.median(numpy.diff(by)))
    if period <= 0 or float(numpy.median(by - after)) > _NARROW * period:
        return None
    periods = period * (1 + numpy.linspace(-_MOST_OFF, _MOST_OFF, _CANDIDATES))
    distances = numpy.outer(periods, numpy.concatenate([[0.0], numpy.cumsum(numpy.round(numpy.diff(by) / period))]))
    kept = list(range(len(advances)))
    while True:
        lowest, highest = (after - distances)[:, kept], (by - distances)[:, kept]
        room = highest.min(axis=1) - lowest.max(axis=1)
        fits = room >= 0
        if fits.any():
            break
        if len(kept) <= _FEWEST or len(kept) <= _MOST_LEFT * len(advances):
            return None
        best = int(room.argmax())
        kept.remove(_in_the_way(lowest[best], highest[best], kept))
    middle = int(numpy.flatnonzero(fits).mean().round())
    phase = (lowest[middle].max() + highest[middle].min()) / 2
    return Moments(kept, phase + distances[middle, kept], float(numpy.ptp(periods[fits]) / 2))


def _in_the_way(lowest: numpy.ndarray, highest: numpy.ndarray, kept: list[int]) -> int:
    """Of the two advances between which there is no room the one without which there is more."""
    early, late = int(highest.argmin()), int(lowest.argmax())
    without = {place: numpy.delete(highest, place).min() - numpy.delete(lowest, place).max() for place in (early, late)}
    return kept[max(without, key=without.__getitem__)]
