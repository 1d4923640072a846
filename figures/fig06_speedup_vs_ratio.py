"""Figure 6: speed-up of the kernel over min(bmm, einsum, bsr), by (b+c)/(bc).

By hand: python figures/fig06_speedup_vs_ratio.py --table results/<device>/time.csv --output results/<device>/figures
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import ratios
import style
from boxes import boxes_by_value, convention
from groups import Group, by_value, describe_values, summary
from script import conditions, main, sentences

NAME = Path(__file__).stem
TITLE = "Figure 6: speed-up of kernel over the baselines, by (b+c)/(bc)"


def caption(table: pd.DataFrame, dtype: str = "float32") -> str:
    """What is drawn, of which patterns, on which device."""
    factors = _factors(table, dtype)
    compared = len(ratios.speedup(ratios.times(table, dtype), ["kernel"], ratios.RIVALS))
    rivals = ratios.label(ratios.present(ratios.times(table, dtype), ratios.RIVALS))
    return sentences(
        f"Time of {rivals} over time of kernel; above 1 the kernel is faster.",
        "For each implementation the faster of the two layouts.",
        f"Only the {len(factors)} of {compared} patterns for which the best specialised implementation "
        f"({', '.join(ratios.SPECIALISED)}) is faster than the best generic one ({', '.join(ratios.GENERIC)}).",
        describe_values(_groups(factors), "(b+c)/(bc)"),
        ratios.absence(table, dtype, ratios.RIVALS),
        f"{ratios.ADDED} is not in the paper and not among these rivals (see Table 3 for it).",
        convention(_groups(factors)),
        conditions(table, dtype, factors.index),
    )


def missing(table: pd.DataFrame, dtype: str = "float32") -> str | None:
    """Why the table cannot give the figure, or None."""
    reason = ratios.why_missing(table, dtype, ["kernel"], ratios.RIVALS)
    if reason is None and _factors(table, dtype).empty:
        return f"in {dtype}, no pattern has a specialised implementation that is faster than dense and sparse"
    return reason


def draw(table: pd.DataFrame, output: Path, dtype: str = "float32", name: str = NAME) -> None:
    """Writes <output>/<name>.pdf, .png and .csv (one row per box)."""
    groups = _groups(_factors(table, dtype))
    figure = style.new_figure()
    axes = figure.subplots()
    boxes_by_value(axes, groups, "kernel", "(b+c)/(bc)")
    style.ratio_axis(axes, label="speed-up of kernel")
    style.save(figure, name, output, caption(table, dtype), summary(groups))


def _factors(table: pd.DataFrame, dtype: str) -> pd.Series:
    seconds = ratios.where_specialised_wins(ratios.times(table, dtype))
    return ratios.speedup(seconds, ["kernel"], ratios.RIVALS)


def _groups(factors: pd.Series) -> list[Group]:
    return by_value(ratios.attribute(factors.index, "memory_ratio"), factors)


if __name__ == "__main__":
    main(__name__)
