"""Figure 19 (not in the paper): time over roofline, over the patterns, for each implementation, layout and dtype.

By hand: python figures/fig19_time_over_roofline.py --table results/<device>/time.csv --output FOLDER
"""

from __future__ import annotations

from pathlib import Path

import curves
import pandas as pd
import ratios
import style
from curves import Curve
from groups import statistics
from script import conditions, main, on_gpu, sentences

from ksmm.names import DTYPE_NAMES

NAME = Path(__file__).stem
TITLE = "Figure 19 (not in the paper): time over roofline"
WITHIN = (1.2, 1.5, 2.0)
"""The CSV has the share of patterns within so many times the limit."""


def caption(table: pd.DataFrame) -> str:
    """What is drawn, of which patterns, on which device."""
    rows = ratios.time_over_roofline(table)
    dtypes = list(dict.fromkeys(dtype for dtype, _ in _panels(table)))
    return sentences(
        "Percentage of patterns whose median time is at most so many times the least time that the device's measured "
        "ceilings allow: the larger of bytes (X and the weights read once, Y written once) over copy bandwidth, and of "
        "operations (2·B·abcd) over the rate of the dtype's matrix product. 1 is the limit as far as PyTorch's own "
        "copy and matrix product reach it.",
        "In float32 that is the limit of float32 multiply-adds for every implementation; kernel may use the matrix "
        "units at the same accuracy, and can be below 1."
        if "float32" in dtypes and on_gpu(table)
        else "",
        "A pattern that an implementation has no time for counts as slower than all others; the axis ends at "
        f"{curves.FARTHEST:g} at most.",
        conditions(table, dtypes, rows.set_index(ratios.PROBLEM).index),
    )


def missing(table: pd.DataFrame) -> str | None:
    """Why the table cannot give the figure, or None."""
    if not (table.status == "ok").any():
        return "no measurement in the table has a time"
    if ratios.time_over_roofline(table).empty:
        return "the table has no roofline: the ceilings of the device were not measured"
    return None


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.pdf, .png and .csv (one row per curve); a row of panels for each dtype."""
    panels = _panels(table)
    figure = curves.draw_over_limit(panels, "time over roofline, at most", legend_columns=4)
    style.save(figure, NAME, output, caption(table), _numbers(panels))


def _panels(table: pd.DataFrame) -> dict[tuple[str, str], list[Curve]]:
    """By dtype and layout; a panel's shares are of all patterns that any implementation has a time for there."""
    panels = {}
    for key, rows in ratios.time_over_roofline(table).groupby(["dtype", "layout"]):
        total = len(rows[ratios.PROBLEM].drop_duplicates())
        values = {name: part.over_roofline.to_numpy() for name, part in rows.groupby("implementation")}
        panels[key] = [Curve(name, values[name], total) for name in style.ordered(set(values))]
    return dict(sorted(panels.items(), key=lambda item: (DTYPE_NAMES.index(item[0][0]), item[0][1])))


def _numbers(panels: dict[tuple[str, str], list[Curve]]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "dtype": dtype,
            "layout": layout,
            "implementation": curve.name,
            "patterns": curve.total,
            **statistics(curve.values),
            **{f"share_within_{limit:g}": curve.share_up_to(limit) for limit in WITHIN},
        }
        for (dtype, layout), members in panels.items()
        for curve in members
    )


if __name__ == "__main__":
    main(__name__)
