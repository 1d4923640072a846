"""Figure 19 (not in the paper): time over roofline, over the patterns, for each implementation, layout and dtype.

By hand: python figures/fig19_time_over_roofline.py --table results/<device>/time.csv --output FOLDER
"""

from __future__ import annotations

from pathlib import Path

import curves
import over_roofline
import pandas as pd
import ratios
import style
from script import conditions, main, on_gpu, sentences

NAME = Path(__file__).stem
TITLE = "Figure 19 (not in the paper): time over roofline"
WITHIN = (1.2, 1.5, 2.0)
"""The CSV has the share of patterns within so many times the limit."""


def caption(table: pd.DataFrame) -> str:
    """What is drawn, of which patterns, on which device."""
    rows = ratios.time_over_roofline(table)
    dtypes = list(dict.fromkeys(dtype for dtype, _ in over_roofline.panels_of(rows)))
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
    panels = over_roofline.panels_of(ratios.time_over_roofline(table))
    figure = over_roofline.draw(panels, "time over roofline, at most", legend_columns=4)
    style.save(figure, NAME, output, caption(table), over_roofline.numbers(panels, WITHIN))


if __name__ == "__main__":
    main(__name__)
