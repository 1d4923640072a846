"""Figure 24 (not in the paper): joules per useful operation, for each implementation, layout and dtype.

By hand: python figures/fig24_joules_per_operation.py --table results/<device>/energy.csv --output FOLDER
"""

from __future__ import annotations

from pathlib import Path

import energies
import pandas as pd
import ratios
import scales
import style
from boxes import boxes_by_name, convention
from groups import Group, summary
from matplotlib.axes import Axes
from script import conditions, main, sentences

from ksmm.names import DTYPE_NAMES

NAME = Path(__file__).stem
STUDY = "energy"
TITLE = "Figure 24 (not in the paper): energy per useful operation"


def caption(table: pd.DataFrame) -> str:
    """What is drawn, of which patterns, on which device."""
    rows, panels = _rows(table), _panels(table)
    used = list(dict.fromkeys(dtype for dtype, _ in panels))
    return sentences(
        "Energy of one product over its 2·B·abcd useful operations, in picojoules; power at rest is included. What an "
        "implementation computes beyond that (the zeros of dense) or moves about does not count as useful.",
        "Boxes of fewer patterns than others (n) are not to be compared with those: bmm_strided takes batch_first for "
        "d = 1 alone."
        if any(len({len(values) for values in members.values()}) > 1 for members in panels.values())
        else "",
        energies.of_the_authors(rows),
        convention(Group(1, 1, values) for members in panels.values() for values in members.values()),
        conditions(rows, " and ".join(used), rows.set_index(ratios.PROBLEM).index),
    )


def missing(table: pd.DataFrame) -> str | None:
    """Why the table cannot give the figure, or None."""
    return energies.why_missing(table, ())


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.pdf, .png and .csv (one row per box); a row of panels for each dtype."""
    panels = _panels(table)
    rows, columns = (list(dict.fromkeys(key[i] for key in panels)) for i in (0, 1))
    figure = style.new_figure(style.WIDTH * (0.4 + 0.6 * len(columns)), 0.95 * style.HEIGHT * len(rows))
    grid = figure.subplots(len(rows), len(columns), squeeze=False, sharey="row")
    for i, dtype in enumerate(rows):
        for j, layout in enumerate(columns):
            members = panels.get((dtype, layout))
            if members is None:
                grid[i, j].set_visible(False)
                continue
            boxes_by_name(grid[i, j], members)
            grid[i, j].set_title(f"{dtype}, {layout}", loc="right", pad=11)
        _log_axis([axes for axes in grid[i] if axes.get_visible()])
    data = [
        summary([Group(1, 1, values)], dtype=dtype, layout=layout, implementation=name)
        for (dtype, layout), members in panels.items()
        for name, values in members.items()
    ]
    style.save(figure, NAME, output, caption(table), pd.concat(data).drop(columns=["low", "high"]))


def _log_axis(panels: list[Axes]) -> None:
    low = min(axes.dataLim.y0 for axes in panels) / 1.08
    high = max(axes.dataLim.y1 for axes in panels) * 1.08
    for axes in panels:
        axes.set_yscale("log")
        axes.set_ylim(low, high)
        scales.set_ticks(axes.yaxis, style.round_numbers(low, high))
    panels[0].set_ylabel("pJ per useful operation")


def _rows(table: pd.DataFrame) -> pd.DataFrame:
    return energies.first_device(table, ())


def _panels(table: pd.DataFrame) -> dict[tuple[str, str], dict[str, pd.Series]]:
    panels = {}
    for key, rows in _rows(table).groupby(["dtype", "layout"]):
        cost = 1e12 * rows.energy_j / rows.operations
        panels[key] = {name: cost[rows.implementation == name] for name in style.ordered(set(rows.implementation))}
    return dict(sorted(panels.items(), key=lambda item: (DTYPE_NAMES.index(item[0][0]), item[0][1])))


if __name__ == "__main__":
    main(__name__)
