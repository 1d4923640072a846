"""Figure 23 (not in the paper): energy over the energy roofline, for each implementation, layout and dtype.

By hand: python figures/fig23_energy_over_roofline.py --table results/<device>/energy.csv --output FOLDER
"""

from __future__ import annotations

from pathlib import Path

import energies
import over_roofline
import pandas as pd
import ratios
import style
from script import conditions, main, sentences

NAME = Path(__file__).stem
STUDY = "energy"
TITLE = "Figure 23 (not in the paper): energy over the energy roofline"


def caption(table: pd.DataFrame) -> str:
    """What is drawn, of which patterns, on which device."""
    rows = _rows(table)
    used = list(dict.fromkeys(dtype for dtype, _ in over_roofline.panels_of(rows)))
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
    panels = over_roofline.panels_of(_rows(table))
    figure = over_roofline.draw(panels, "energy over energy roofline, at most", legend_columns=3)
    style.save(figure, NAME, output, caption(table), over_roofline.numbers(panels))


def _rows(table: pd.DataFrame) -> pd.DataFrame:
    rows = table[(table.status == "ok") & (table.roofline_j > 0) & (table.source == "measured")]
    return rows.assign(over_roofline=rows.energy_j / rows.roofline_j)


if __name__ == "__main__":
    main(__name__)
