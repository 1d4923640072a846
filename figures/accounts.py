"""What captions say of a comparison: the patterns that it leaves out for want of a time, and the layouts."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import ratios


def left_out(table: pd.DataFrame, dtype: str, *sides: Sequence[str], layout: str | None = None) -> str:
    """How many patterns are left out, and whose time they lack; empty if none.

    Args:
        table: rows of time.csv.
        dtype: the one that is compared.
        sides: each a list of implementations, one of which must have a time; a pattern counts for the first that lacks.
        layout: None for any of the two.
    """
    problems = table[table.dtype == dtype].set_index(ratios.PROBLEM).index.unique()
    seconds = ratios.times(table, dtype, layout).reindex(problems)
    said = []
    for side in sides:
        timed = ratios.fastest(seconds, side).notna()
        if not timed.all():
            said.append(f"{patterns(int((~timed).sum()))} left out: {_without(side)}.")
        seconds = seconds[timed]
    return " ".join(said)


def in_layouts(table: pd.DataFrame, *dtypes: str) -> str:
    """What captions say of the layout where each implementation has its best: the faster of two, or the only one."""
    found = table[table.dtype.isin(dtypes) & (table.status == "ok") & (table.part == "whole")].layout.unique()
    if len(found) > 1:
        return "For each implementation the faster of the two layouts."
    return f"All in {found[0]}, the only layout with times." if len(found) else ""


def patterns(number: int) -> str:
    """A number of patterns, in words."""
    return "1 pattern" if number == 1 else f"{number} patterns"


def _without(side: Sequence[str]) -> str:
    if len(side) == 1:
        return f"{side[0]} has no time"
    who = "no generic implementation" if tuple(side) == ratios.GENERIC else f"none of {ratios.listed(side)}"
    return f"{who} has a time"
