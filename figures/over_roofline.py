"""What the figures of times and of energies over their rooflines share: curves by implementation, layout and dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import curves
import pandas as pd
import ratios
import style
from curves import Curve
from groups import statistics
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ksmm.names import DTYPE_NAMES

Panels = Mapping[tuple[str, str], list[Curve]]
"""Curves by (dtype, layout)."""


def panels_of(rows: pd.DataFrame) -> Panels:
    """The curves of the column over_roofline; shares are of all patterns that anything there has a row for."""
    panels = {}
    for key, members in rows.groupby(["dtype", "layout"]):
        total = len(members[ratios.PROBLEM].drop_duplicates())
        values = {name: part.over_roofline.to_numpy() for name, part in members.groupby("implementation")}
        panels[key] = [Curve(name, values[name], total) for name in style.ordered(set(values))]
    return dict(sorted(panels.items(), key=lambda item: (DTYPE_NAMES.index(item[0][0]), item[0][1])))


def draw(panels: Panels, label: str, legend_columns: int) -> Figure:
    """A row of panels for each dtype and a column for each layout, with a legend above.

    Args:
        panels: what there is to draw.
        label: of the axis.
        legend_columns: of the legend over one column of panels; over two it has five.
    """

    def draw_panel(axes: Axes, members: list[Curve], title: str) -> None:
        axes.set_title(title, loc="right")
        for curve in members:
            curves.draw_up_to(axes, curve, curve.name)

    limits = curves.limits_of(curve for members in panels.values() for curve in members)
    figure, grid = curves.draw_grid(panels, draw_panel, limits, label)
    curves.common_legend(figure, grid.flat, 5 if grid.shape[1] > 1 else legend_columns)
    return figure


def numbers(panels: Panels, within: Sequence[float] = ()) -> pd.DataFrame:
    """One row per curve: its statistics, and the shares of patterns within so many times the roofline."""
    return pd.DataFrame(
        {
            "dtype": dtype,
            "layout": layout,
            "implementation": curve.name,
            "patterns": curve.total,
            **statistics(curve.values),
            **{f"share_within_{limit:g}": curve.share_up_to(limit) for limit in within},
        }
        for (dtype, layout), members in panels.items()
        for curve in members
    )
