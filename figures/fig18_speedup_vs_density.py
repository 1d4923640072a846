"""Figure 18 (not in the paper, promised to its reviewers): speed-up of the kernel against the density 1/(ad).

By hand: python figures/fig18_speedup_vs_density.py --table results/<device>/time.csv --output FOLDER
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import ratios
import style
from accounts import in_layouts, left_out
from boxes import boxes_by_decades, convention
from groups import Group, by_decades, describe_decades, summary
from script import conditions, main, sentences

from ksmm.names import DTYPE_NAMES

NAME = Path(__file__).stem
TITLE = "Figure 18 (not in the paper): speed-up of kernel against sparsity"
SIDES = ("generic", "specialised")


def caption(table: pd.DataFrame) -> str:
    """What is drawn, of which patterns, on which device."""
    panels = _panels(table)
    dtypes, sides = (list(dict.fromkeys(key[i] for key in panels)) for i in (0, 1))
    names_of_sides = [_rivals(table, side) for side in sides]
    rows = [f"{side} ({ratios.listed(names)})" for side, names in zip(sides, names_of_sides, strict=True)]
    return sentences(
        "Time of the fastest rival over time of kernel, by the density 1/(ad) of the matrix (1 has no zeros; sparser "
        "to the right); above 1 the kernel is faster. "
        f"Rivals, from above: {ratios.listed(rows)}.",
        in_layouts(table, *dtypes),
        describe_decades(next(iter(panels.values())), "the density"),
        *(ratios.absence(table, dtype, ratios.every_rival(table)) for dtype in dtypes),
        *(_left_out(table, dtype, names) for dtype in dtypes for names in (["kernel"], *names_of_sides)),
        convention([group for members in panels.values() for group in members]),
        conditions(table, dtypes, *(_factors(table, *key).index for key in panels)),
    )


def missing(table: pd.DataFrame) -> str | None:
    """Why the table cannot give the figure, or None."""
    reasons = [ratios.why_missing(table, dtype, ["kernel"], ratios.every_rival(table)) for dtype in _dtypes(table)]
    return None if _panels(table) else next(iter(reasons), "the table has no measurements")


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.pdf, .png and .csv (one row per box); a column of panels for each dtype."""
    panels = _panels(table)
    columns = list(dict.fromkeys(dtype for dtype, _ in panels))
    rows = [side for side in SIDES if any(key[1] == side for key in panels)]
    figure = style.new_figure(style.WIDTH * (0.35 + 0.65 * len(columns)), 0.9 * style.HEIGHT * len(rows))
    grid = figure.subplots(len(rows), len(columns), squeeze=False, sharey="row")
    for i, side in enumerate(rows):
        for axes, dtype in zip(grid[i], columns, strict=True):
            if (dtype, side) not in panels:
                axes.set_visible(False)
                continue
            boxes_by_decades(axes, panels[dtype, side], "kernel", "density 1/(ad)" if i == len(rows) - 1 else "")
            axes.invert_xaxis()
            axes.set_title(dtype if i == 0 else "", loc="right", pad=11)
        drawn = [axes for axes in grid[i] if axes.get_visible()]
        style.ratio_axis(*drawn, label=f"speed-up of kernel over\n{ratios.label(_rivals(table, side))}")
    data = pd.concat([summary(members, dtype=dtype, rivals=side) for (dtype, side), members in panels.items()])
    style.save(figure, NAME, output, caption(table), data)


def _panels(table: pd.DataFrame) -> dict[tuple[str, str], list[Group]]:
    factors = {(dtype, side): _factors(table, dtype, side) for dtype in _dtypes(table) for side in SIDES}
    return {
        key: by_decades(ratios.attribute(values.index, "density"), values)
        for key, values in factors.items()
        if not values.empty
    }


def _factors(table: pd.DataFrame, dtype: str, side: str) -> pd.Series:
    return ratios.speedup(ratios.times(table, dtype), ["kernel"], _rivals(table, side))


def _dtypes(table: pd.DataFrame) -> list[str]:
    return [dtype for dtype in DTYPE_NAMES if (table.dtype == dtype).any()]


def _left_out(table: pd.DataFrame, dtype: str, names: Sequence[str]) -> str:
    missing_ones = left_out(table, dtype, names)
    return f"In {dtype}, {missing_ones}" if missing_ones else ""


def _rivals(table: pd.DataFrame, side: str) -> tuple[str, ...]:
    # What is new counts as specialised: the generic ones are those that know nothing of Kronecker-sparse matrices.
    return tuple(name for name in ratios.every_rival(table) if (name in ratios.GENERIC) == (side == "generic"))


if __name__ == "__main__":
    main(__name__)
