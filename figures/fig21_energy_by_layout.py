"""Figure 21 (not in the paper): energy of the kernel over that of its rivals, for each dtype and layout.

By hand: python figures/fig21_energy_by_layout.py --table results/<device>/energy.csv --output FOLDER
"""

from __future__ import annotations

from pathlib import Path

import energies
import pandas as pd
import ratios
import style
from boxes import boxes_by_decades, convention
from groups import Group, by_decades, describe_decades, summary
from script import conditions, main, sentences

NAME = Path(__file__).stem
STUDY = "energy"
TITLE = "Figure 21 (not in the paper): energy of kernel over its rivals, for each dtype and layout"
RIVALS = (ratios.ADDED, *ratios.RIVALS)
LAYOUTS = {"the better layout": None, "batch_first": "batch_first", "batch_last": "batch_last"}


def caption(table: pd.DataFrame) -> str:
    """What is drawn, of which patterns, on which device."""
    rows, panels = _rows(table), _panels(table)
    return sentences(
        "Energy of one product with kernel over the least that one of its rivals takes, "
        f"{ratios.ADDED} (not in the paper) among them; below 1, kernel takes less. "
        "The better layout: for each implementation the one that takes the less energy.",
        describe_decades(next(iter(panels.values())), "d(b+c)/(bc)"),
        energies.of_the_authors(rows),
        convention(group for members in panels.values() for group in members),
        conditions(rows, " and ".join(dict.fromkeys(dtype for dtype, _ in panels)), *_indices(table)),
    )


def missing(table: pd.DataFrame) -> str | None:
    """Why the table cannot give the figure, or None."""
    return energies.why_missing(table, (("kernel",), RIVALS))


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.pdf, .png and .csv (one row per box); a row of panels for each dtype."""
    panels = _panels(table)
    rows = list(dict.fromkeys(dtype for dtype, _ in panels))
    columns = [name for name in LAYOUTS if any(key[1] == name for key in panels)]
    figure = style.new_figure(style.WIDTH * (0.2 + 0.6 * len(columns)), 0.85 * style.HEIGHT * len(rows))
    grid = figure.subplots(len(rows), len(columns), squeeze=False, sharey="row")
    for i, dtype in enumerate(rows):
        for axes, name in zip(grid[i], columns, strict=True):
            if (dtype, name) not in panels:
                axes.set_visible(False)
                continue
            boxes_by_decades(axes, panels[dtype, name], "kernel", "d(b+c)/(bc)" if i == len(rows) - 1 else "")
            axes.set_title(f"{dtype}, {name}", loc="right", pad=11)
        drawn = [axes for axes in grid[i] if axes.get_visible()]
        style.ratio_axis(*drawn, label="energy of kernel\nover its rivals")
    data = pd.concat([summary(members, dtype=dtype, layout=name) for (dtype, name), members in panels.items()])
    style.save(figure, NAME, output, caption(table), data)


def _rows(table: pd.DataFrame) -> pd.DataFrame:
    return energies.first_device(table, (("kernel",), RIVALS))


def _factors(table: pd.DataFrame) -> dict[tuple[str, str], pd.Series]:
    rows = _rows(table)
    factors = {
        (dtype, name): energies.over_rivals(rows, dtype, layout, rivals=RIVALS)
        for dtype in energies.dtypes(rows)
        for name, layout in LAYOUTS.items()
    }
    return {key: values for key, values in factors.items() if not values.empty}


def _indices(table: pd.DataFrame) -> list[pd.Index]:
    return [values.index for values in _factors(table).values()]


def _panels(table: pd.DataFrame) -> dict[tuple[str, str], list[Group]]:
    return {
        key: by_decades(ratios.attribute(values.index, "energy_ratio"), values)
        for key, values in _factors(table).items()
    }


if __name__ == "__main__":
    main(__name__)
