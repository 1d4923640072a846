"""Groups of patterns: what one box of a box plot stands for, and the five numbers that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

FEW = 8
"""Below this many points a box is misleading alone, and its points are drawn, too."""

_MOST_VALUES = 18
_ENOUGH = 5
"""Patterns a group should have on average."""


@dataclass(frozen=True)
class Group:
    """The values of the patterns that lie between low and high (both included) on the x axis."""

    low: float
    high: float
    values: np.ndarray


def by_value(x: Sequence[float], y: Sequence[float]) -> list[Group]:
    """One group for each value of x, or neighbouring values together where patterns are few or values many.

    Values are put together so that groups hold about equally many patterns, on average at least 5; equal values of
    x never come apart. Empty groups do not occur.
    """
    x, y = _rounded(x), np.asarray(y, dtype=float)
    distinct, counts = np.unique(x, return_counts=True)
    number = int(np.clip(len(x) // _ENOUGH, min(3, len(distinct)), min(_MOST_VALUES, len(distinct))))
    # A value belongs to the share of the patterns in which the middle of its own patterns lies.
    middles = (np.cumsum(counts) - counts / 2) / len(x)
    shares = np.floor(middles * number).astype(int) if number < len(distinct) else np.arange(len(distinct))
    groups = []
    for share in np.unique(shares):
        members = distinct[shares == share]
        groups.append(Group(float(members[0]), float(members[-1]), y[np.isin(x, members)]))
    return groups


def by_decades(x: Sequence[float], y: Sequence[float], most: int = 12) -> list[Group]:
    """Groups of equal width in log10(x), at most `most`, on average at least 5 patterns each; empty ones left out."""
    x, y = _rounded(x), np.asarray(y, dtype=float)
    if x.min() == x.max():
        return [Group(float(x.min()), float(x.max()), y)]
    number = int(np.clip(len(x) // _ENOUGH, 3, most))
    edges = np.geomspace(x.min(), x.max(), number + 1)
    place = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, number - 1)
    return [Group(float(edges[i]), float(edges[i + 1]), y[place == i]) for i in range(number) if (place == i).any()]


def describe_values(groups: Sequence[Group], name: str) -> str:
    """What the caption says of `by_value`."""
    if all(group.low == group.high for group in groups):
        return f"Patterns are grouped by their value of {name}."
    return f"Neighbouring values of {name} are put together into {len(groups)} groups of about equally many patterns."


def describe_decades(groups: Sequence[Group], name: str) -> str:
    """What the caption says of `by_decades`."""
    if groups[0].low == groups[0].high:
        return f"All patterns have one value of {name}."
    return f"Patterns are grouped into ranges of {name} of equal width on the log axis ({len(groups)} are not empty)."


def flat(groups: Sequence[Group]) -> list[Group]:
    """The groups that a log axis for all of them squeezes to a line, if they are half of them; else none.

    Those are the groups whose whiskers take less than a tenth of the axis, and which lie together: one far from the
    others would leave them lines on an axis of their own, too. One pattern alone has no spread to show.
    """
    logs = {id(group): np.log10(np.percentile(group.values, [5, 95])) for group in groups}
    ends = [0.0, *np.concatenate(list(logs.values()))]
    length = max(ends) - min(ends)
    found = [g for g in groups if len(g.values) > 1 and np.ptp(logs[id(g)]) < 0.1 * length]
    if found:
        middle = np.median([np.mean(logs[id(g)]) for g in found])
        found = [g for g in found if abs(np.mean(logs[id(g)]) - middle) < 0.1 * length]
    return found if 2 * len(found) >= len(groups) > 1 else []


def statistics(values: Sequence[float]) -> dict[str, float]:
    """The number n, and the 5th, 25th, 50th, 75th and 95th percentiles (linear interpolation), as boxes show them."""
    p5, q1, median, q3, p95 = np.percentile(np.asarray(values, dtype=float), [5, 25, 50, 75, 95])
    return {"n": len(values), "p5": p5, "q1": q1, "median": median, "q3": q3, "p95": p95}


def summary(groups: Sequence[Group], **columns: str) -> pd.DataFrame:
    """One row per group: `columns`, its limits (low, high), and its statistics."""
    return pd.DataFrame([{**columns, "low": g.low, "high": g.high, **statistics(g.values)} for g in groups])


def rank_correlation(x: Sequence[float], values: Sequence[float]) -> float:
    """Spearman's: 1 if the values always grow with x, -1 if they always fall; NaN where either never changes."""
    return float(pd.Series(_rounded(x)).rank().corr(pd.Series(np.asarray(values)).rank()))


def _rounded(x: Sequence[float]) -> np.ndarray:
    # 2/64 and 5/160 must be one value, whatever their last bit says.
    return np.asarray([float(f"{value:.12g}") for value in x])
