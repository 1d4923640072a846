"""When an energy counter advanced: between two questions, and far more exactly if it keeps time.

NVML's counter on an H200 advances every 100 ms to the millisecond, but asking it takes 2 to 20 ms. An advance is then
known to have been within some milliseconds; of many at equal distances, what fits all of them is known better.
"""

from __future__ import annotations

import itertools
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

_WIDEST = 0.6
"""If the period is known, an advance may be known so much less exactly, relative to it, and is still the only one that
it can be: the host may have waited for room in the GPU's queue of launches before it asked again."""

_MOST_LATE = 0.4
"""The share of the advances that may not fit a period that is known from before."""


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


def moments_of_period(advances: Sequence[Advance], period_s: float, uncertainty_s: float) -> Moments | None:
    """The moments of a counter that is known to advance every `period_s` seconds, give or take the uncertainty.

    All that is not known is the phase: the one that lies between the last old and the first new answer of the most
    advances. The others, with which the driver was late, are left out.

    Args:
        advances: in order; some may be missing in between.
        period_s: from a calibration.
        uncertainty_s: of the period.

    Returns:
        The moments; None where fewer than 60 % of the advances fit, or fewer than three.
    """
    after, by = (numpy.array([getattr(advance, name) for advance in advances]) for name in ("after", "by"))
    usable = numpy.flatnonzero(by - after <= _WIDEST * period_s)
    if len(usable) < 3:
        return None
    origin, widths = after[usable[0]], (by - after)[usable]
    periods = period_s + uncertainty_s * numpy.linspace(-1, 1, 41)
    found = [_best_phase((after[usable] - origin) % period, widths, period) for period in periods]
    most = max(count for count, _ in found)
    if most < max(3, (1 - _MOST_LATE) * len(advances)):
        return None
    fits = [place for place, (count, _) in enumerate(found) if count == most]
    middle = fits[len(fits) // 2]
    period, phase = periods[middle], found[middle][1]
    numbers = numpy.floor((by[usable] - origin - phase) / period)
    moments = origin + phase + numbers * period
    fit = (moments > after[usable]) & (moments <= by[usable])
    fit[1:] &= numpy.diff(numbers) > 0  # an answer that takes long may be in two stretches
    return Moments(usable[fit].tolist(), moments[fit], float(numpy.ptp(periods[fits]) / 2))


def _best_phase(starts: numpy.ndarray, widths: numpy.ndarray, period: float) -> tuple[int, float]:
    """How many stretches of a circle have a point in common, at most, and the middle of where they have it.

    Args:
        starts: where each begins, in [0, period).
        widths: how long each is, below the period.
        period: the length of the circle.
    """
    behind = (starts[:, None] - starts[None, :]) % period  # of the beginning of each, seen from that of each
    left = widths[None, :] - behind  # of the stretch, from there on
    counts = (left > 0).sum(axis=1)
    best = int(counts.argmax())
    return int(counts[best]), float(starts[best] + left[best][left[best] > 0].min() / 2)


def _in_the_way(lowest: numpy.ndarray, highest: numpy.ndarray, kept: list[int]) -> int:
    """Of the two advances between which there is no room the one without which there is more."""
    early, late = int(highest.argmin()), int(lowest.argmax())
    without = {place: numpy.delete(highest, place).min() - numpy.delete(lowest, place).max() for place in (early, late)}
    return kept[max(without, key=without.__getitem__)]


def intervals_of(ticks: Sequence[tuple[float, float]]) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Seconds and joules from each moment to the next."""
    pairs = list(itertools.pairwise(ticks))
    seconds = numpy.array([after[0] - before[0] for before, after in pairs])
    return seconds, numpy.array([after[1] - before[1] for before, after in pairs])


def uncertainty_by_joules_s(seconds: numpy.ndarray, joules: numpy.ndarray) -> float:
    """The largest difference between an interval and what its joules take at mean power."""
    return float(numpy.abs(joules / (joules.sum() / seconds.sum()) - seconds).max())
