"""Ticks of log axes: at round numbers, written short."""

from __future__ import annotations

import matplotlib.ticker
import numpy as np
from matplotlib.axis import Axis

_MANTISSAS = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9))
_NARROW = 1.4
"""Below this ratio of its ends a log axis is as good as a linear one, and has its ticks."""

_FARTHEST = 0.2
"""No end of the axis should be farther from a tick than this share of its length."""

_MOST = 10


def round_numbers(low: float, high: float) -> list[float]:
    """At least four round numbers from low to high, where there are; else as many as there are, or low and high."""
    if high / low < _NARROW:
        steps = matplotlib.ticker.MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)
        return [float(f"{tick:.6g}") for tick in steps if low <= tick <= high]
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    choices = [[m * 10.0**k for k in decades for m in each if low <= m * 10.0**k <= high] for each in _MANTISSAS]
    enough = [ticks for ticks in choices if len(ticks) >= 4]
    reaching = [ticks for ticks in enough if _reach_the_ends(ticks, low, high) and len(ticks) <= _MOST]
    if enough:
        return (reaching or enough)[0]
    if len(choices[-1]) >= 2:
        return choices[-1]
    return sorted({float(f"{limit:.3g}") for limit in (low, high)} | set(choices[-1]))


def set_ticks(axis: Axis, ticks: list[float]) -> None:
    """Gives a log axis these ticks and no others, as plain numbers."""
    axis.set_major_locator(matplotlib.ticker.FixedLocator(ticks))
    axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(matplotlib.ticker.NullLocator())


def _reach_the_ends(ticks: list[float], low: float, high: float) -> bool:
    gap = max(ticks[0] / low, high / ticks[-1])
    return bool(np.log(gap) <= _FARTHEST * np.log(high / low))
