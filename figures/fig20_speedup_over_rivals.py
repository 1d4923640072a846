"""Figure 20 (not in the paper): speed-up of the kernel over its fastest rival, over the patterns, per layout and dtype.

By hand: python figures/fig20_speedup_over_rivals.py --table results/<device>/time.csv --output FOLDER
"""

from __future__ import annotations

from pathlib import Path

import curves
import numpy as np
import pandas as pd
import ratios
import style
from curves import Curve
from groups import statistics
from matplotlib.axes import Axes
from script import conditions, main, sentences

from ksmm.names import DTYPE_NAMES, LAYOUTS

NAME = Path(__file__).stem
TITLE = "Figure 20 (not in the paper): speed-up of kernel over the fastest rival in each layout"
FASTEST = "fastest rival"
ALONE = {"batch_first": (), "batch_last": (ratios.ADDED, "lazylinop")}
"""The rivals that the kernel is also compared to alone: where they take every pattern."""


def caption(table: pd.DataFrame) -> str:
    """What is drawn, of which patterns, on which device."""
    panels, rivals = _panels(table), ratios.every_rival(table)
    dtypes = list(dict.fromkeys(dtype for dtype, _ in panels))
    problems = [_times(table, key).index for key in panels]
    return sentences(
        "Percentage of patterns for which kernel is at least so many times faster than the fastest of "
        f"{ratios.listed(rivals)} in the same layout and dtype; right of 1 the kernel is faster. The legends give "
        "the median speed-up and how often the kernel is faster.",
        _alone(panels),
        "A pattern that the kernel has no time for counts as lost.",
        "In float32 all rivals use float32 multiply-adds; the kernel is held to their accuracy."
        if "float32" in dtypes
        else "",
        *(ratios.absence(table, dtype, rivals) for dtype in dtypes),
        conditions(table, dtypes, *problems),
    )


def missing(table: pd.DataFrame) -> str | None:
    """Why the table cannot give the figure, or None."""
    if _panels(table):
        return None
    reasons = [
        ratios.why_missing(table, dtype, ("kernel",), ratios.every_rival(table), layouts=[layout])
        for dtype in DTYPE_NAMES
        if (table.dtype == dtype).any()
        for layout in LAYOUTS
    ]
    return next(iter(reasons), "the table has no measurements")


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.pdf, .png and .csv (one row per curve); a row of panels for each dtype."""
    panels = _panels(table)
    limits = curves.limits_of(curve for members in panels.values() for curve in members.values())
    figure, _ = curves.draw_grid(panels, _panel, limits, "speed-up of kernel, at least")
    style.save(figure, NAME, output, caption(table), _numbers(panels))


def _panel(axes: Axes, members: dict[str, Curve], title: str) -> None:
    axes.set_title(title, loc="left")
    for rival, curve in members.items():
        faster = f"{100 * curve.share_above(1):.0f} %"
        curves.draw_from(axes, curve, f"{rival}: {np.median(curve.values):.2f} ×, {faster}")
    # above the panel: inside, there is no corner that no curve may cross
    axes.legend(loc="lower right", bbox_to_anchor=(1.02, 0.99), frameon=False, handlelength=2.2, borderaxespad=0)


def _panels(table: pd.DataFrame) -> dict[tuple[str, str], dict[str, Curve]]:
    """By dtype and layout, the curves by rival."""
    panels = {}
    for dtype in DTYPE_NAMES:
        for layout, alone in ALONE.items():
            seconds = _times(table, (dtype, layout))
            sides = {FASTEST: ratios.every_rival(table), **{name: (name,) for name in alone}}
            factors = {name: ratios.speedup(seconds, ["kernel"], side) for name, side in sides.items()}
            members = {
                name: Curve(
                    "kernel" if name == FASTEST else name, values.to_numpy(), ratios.patterns_of(seconds, sides[name])
                )
                for name, values in factors.items()
                if not values.empty
            }
            if members:
                panels[dtype, layout] = members
    return panels


def _alone(panels: dict[tuple[str, str], dict[str, Curve]]) -> str:
    """What the caption says of rivals that have a curve of their own."""
    names = {name for members in panels.values() for name in members if name != FASTEST}
    said = {ratios.ADDED: "bmm_strided alone", "lazylinop": "lazylinop, the authors' package"}
    listed = " and against ".join(text for name, text in said.items() if name in names)
    return f"In batch_last also against {listed}." if listed else ""


def _times(table: pd.DataFrame, key: tuple[str, str]) -> pd.DataFrame:
    return ratios.times(table, *key)


def _numbers(panels: dict[tuple[str, str], dict[str, Curve]]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "dtype": dtype,
            "layout": layout,
            "rival": rival,
            "patterns": curve.total,
            **statistics(curve.values),
            "share_faster": curve.share_above(1),
        }
        for (dtype, layout), members in panels.items()
        for rival, curve in members.items()
    )


if __name__ == "__main__":
    main(__name__)
