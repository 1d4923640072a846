"""Figure 23 (not in the paper): energy over the energy roofline, for each implementation, layout and dtype.

By hand: python figures/fig23_energy_over_roofline.py --table results/<device>/energy.csv --output FOLDER
"""

from __future__ import annotations

from pathlib import Path

import curves
import energies
import pandas as pd
import ratios
import style
from curves import Curve
from groups import statistics
from script import conditions, main, sentences

from ksmm.names import DTYPE_NAMES

NAME = Path(__file__).stem
STUDY = "energy"
TITLE = "Figure 23 (not in the paper): energy over the energy roofline"


def caption(table: pd.DataFrame) -> str:
    """What is drawn, of which patterns, on which device."""
    rows, panels = _rows(table), _panels(table)
    used = list(dict.fromkeys(dtype for dtype, _ in panels))
    return sentences(
        "Percentage of patterns whose energy is at most so many times what a product would cost that is as fast as "
        "the roofline of Figure 19 allows and pays for each byte (X, the weights and Y, each moved once) and each of "
        "the 2·B·abcd operations what a large copy and a large matrix product of the same dtype cost on the device: "
        "power at rest times the roofline, plus bytes and operations times their costs above rest. That is no lower "
        "bound: the large product's own data traffic is in what its operations cost, and what fits into a cache costs "
        "less.",
        "In float32 an operation costs that of a multiply-add without TF32; kernel may use the matrix units at the "
        "same accuracy, and can be below 1."
        if "float32" in used
        else "",
        "A pattern that an implementation has no energy for counts as farthest from the limit.",
        conditions(rows, " and ".join(used), rows.set_index(ratios.PROBLEM).index),
    )


def missing(table: pd.DataFrame) -> str | None:
    """Why the table cannot give the figure, or None."""
    reason = energies.why_missing(table, ())
    if reason is None and _rows(table).empty:
        return "the table has no energy roofline: the energy ceilings of the device were not measured"
    return reason


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.pdf, .png and .csv (one row per curve); a row of panels for each dtype."""
    panels = _panels(table)
    figure = curves.draw_over_limit(panels, "energy over energy roofline, at most", legend_columns=3)
    style.save(figure, NAME, output, caption(table), _numbers(panels))


def _rows(table: pd.DataFrame) -> pd.DataFrame:
    return table[(table.status == "ok") & (table.roofline_j > 0) & (table.source == "measured")]


def _panels(table: pd.DataFrame) -> dict[tuple[str, str], list[Curve]]:
    panels = {}
    for key, rows in _rows(table).groupby(["dtype", "layout"]):
        total = len(rows[ratios.PROBLEM].drop_duplicates())
        over = {name: (part.energy_j / part.roofline_j).to_numpy() for name, part in rows.groupby("implementation")}
        panels[key] = [Curve(name, over[name], total) for name in style.ordered(set(over))]
    return dict(sorted(panels.items(), key=lambda item: (DTYPE_NAMES.index(item[0][0]), item[0][1])))


def _numbers(panels: dict[tuple[str, str], list[Curve]]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "dtype": dtype,
            "layout": layout,
            "implementation": curve.name,
            "patterns": curve.total,
            **statistics(curve.values),
        }
        for (dtype, layout), members in panels.items()
        for curve in members
    )


if __name__ == "__main__":
    main(__name__)
