"""The drawing of Figures 4, 9 and 14: share of bmm's time that goes into rewriting memory, by (b+c)/(bc)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import ratios
import style
from boxes import boxes_by_value, convention
from groups import Group, by_value, describe_values, summary
from matplotlib.figure import Figure
from script import conditions, sentences


def caption(table: pd.DataFrame, dtype: str, layouts: Sequence[str]) -> str:
    """What is drawn, of which patterns, on which device."""
    groups = [group for panel in shares_by_ratio(table, dtype, layouts).values() for group in panel]
    problems = [ratios.rewriting_share(table, dtype, layout).index for layout in layouts]
    return sentences(
        "(Δt − Δt̃)/Δt of bmm: Δt is the time of the whole product, Δt̃ that of its multiplication alone "
        f"(line 2 of Algorithm 1), the rest rewrites memory. Layout: {' and '.join(layouts)}.",
        describe_values(groups, "(b+c)/(bc)"),
        convention(groups),
        conditions(table, dtype, *problems),
    )


def missing(table: pd.DataFrame, dtype: str, layouts: Sequence[str]) -> str | None:
    """Why the table cannot give the figure, or None."""
    reason = ratios.why_missing(table, dtype, ["bmm"], layouts=layouts)
    if reason is not None:
        return reason
    for layout in layouts:
        if ratios.rewriting_share(table, dtype, layout).empty:
            return f"the multiplication of bmm alone has no time in {dtype} {layout}"
    return None


def draw(table: pd.DataFrame, output: Path, name: str, dtype: str, layouts: Sequence[str]) -> None:
    """Writes <output>/<name>.pdf, .png and .csv (one row per box)."""
    panels = shares_by_ratio(table, dtype, layouts)
    data = pd.concat([summary(groups, layout=layout) for layout, groups in panels.items()])
    style.save(draw_panels(panels), name, output, caption(table, dtype, layouts), data)


def shares_by_ratio(table: pd.DataFrame, dtype: str, layouts: Sequence[str]) -> dict[str, list[Group]]:
    """For each layout, the shares grouped by (b+c)/(bc)."""
    shares = {layout: ratios.rewriting_share(table, dtype, layout) for layout in layouts}
    return {k: by_value(ratios.attribute(v.index, "memory_ratio"), v) for k, v in shares.items()}


def draw_panels(panels: dict[str, list[Group]]) -> Figure:
    """One panel for each layout, one above the other, on a common axis of shares."""
    figure = style.new_figure(height=style.HEIGHT * (1 if len(panels) == 1 else 1.6))
    rows = figure.subplots(len(panels), 1, sharey=True, squeeze=False)[:, 0]
    for axes, (layout, groups) in zip(rows, panels.items(), strict=True):
        boxes_by_value(axes, groups, "bmm", "(b+c)/(bc)")
        if len(panels) > 1:
            axes.set_title(layout, loc="right", pad=9)
        axes.set_ylabel("rewritings, share of time")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.set_ylim(min(0, axes.dataLim.y0 - 0.03), min(1, axes.dataLim.y1 + 0.05))
    return figure
