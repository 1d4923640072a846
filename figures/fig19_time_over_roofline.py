"""Figure 19 (not in the paper): time over roofline, for each implementation, layout and dtype.

By hand: python figures/fig19_time_over_roofline.py --table results/<device>/time.csv --output FOLDER
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import ratios
import style
from boxes import boxes_by_name, convention
from groups import Group, summary
from matplotlib.axes import Axes
from script import conditions, main, sentences

from ksmm.problem import DTYPES

NAME = Path(__file__).stem
TITLE = "Figure 19 (not in the paper): time over roofline"


def caption(table: pd.DataFrame) -> str:
    """What is drawn, of which patterns, on which device."""
    rows = ratios.time_over_roofline(table)
    dtypes = list(dict.fromkeys(dtype for dtype, _ in _panels(table)))
    groups = [Group(1, 1, values) for samples in _panels(table).values() for values in samples.values()]
    return sentences(
        "Median time over the least time that the device's measured ceilings allow: the larger of bytes (X and the "
        "weights read once, Y written once) over copy bandwidth, and of operations (2·B·abcd) over the rate of the "
        "dtype's matrix product. 1 is the limit as far as PyTorch's own copy and matrix product reach it.",
        "An implementation without a box has no time there (see the table of statuses).",
        convention(groups),
        conditions(table, " and ".join(dtypes), rows.set_index(ratios.PROBLEM).index),
    )


def missing(table: pd.DataFrame) -> str | None:
    """Why the table cannot give the figure, or None."""
    if not (table.status == "ok").any():
        return "no measurement in the table has a time"
    if ratios.time_over_roofline(table).empty:
        return "the table has no roofline: the ceilings of the device were not measured"
    return None


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.pdf, .png and .csv (one row per box); a row of panels for each dtype."""
    panels = _panels(table)
    dtypes, layouts = (list(dict.fromkeys(key[i] for key in panels)) for i in (0, 1))
    figure = style.new_figure(style.WIDTH * (0.5 + 0.5 * len(layouts)), 0.8 * style.HEIGHT * len(dtypes) + 0.4)
    grid = figure.subplots(len(dtypes), len(layouts), squeeze=False, sharey="row")
    for row, dtype in zip(grid, dtypes, strict=True):
        drawn = [_panel(axes, panels.get((dtype, layout)), layout) for axes, layout in zip(row, layouts, strict=True)]
        style.ratio_axis(*filter(None, drawn), label=f"time over roofline\n{dtype}")
    data = pd.concat(
        summary([Group(1, 1, values)], dtype=dtype, layout=layout, implementation=name)
        for (dtype, layout), samples in panels.items()
        for name, values in samples.items()
    )
    style.save(figure, NAME, output, caption(table), data.drop(columns=["low", "high"]))


def _panel(axes: Axes, samples: dict[str, np.ndarray] | None, layout: str) -> Axes | None:
    if samples is None:
        axes.set_visible(False)
        return None
    boxes_by_name(axes, samples)
    axes.set_title(layout, loc="right", pad=11)
    return axes


def _panels(table: pd.DataFrame) -> dict[tuple[str, str], dict[str, np.ndarray]]:
    panels = {}
    for (dtype, layout), rows in ratios.time_over_roofline(table).groupby(["dtype", "layout"]):
        values = {name: part.over_roofline.to_numpy() for name, part in rows.groupby("implementation")}
        panels[dtype, layout] = {name: values[name] for name in style.ordered(list(values))}
    return dict(sorted(panels.items(), key=lambda item: (list(DTYPES).index(item[0][0]), item[0][1])))


if __name__ == "__main__":
    main(__name__)
