"""Figure 22 (not in the paper): what the kernel saves in energy against what it saves in time, pattern by pattern.

By hand: python figures/fig22_energy_against_time.py --table results/<device>/energy.csv --output FOLDER
"""

from __future__ import annotations

from pathlib import Path

import energies
import pandas as pd
import ratios
import scales
import style
from groups import statistics
from matplotlib.axes import Axes
from script import conditions, main, sentences

NAME = Path(__file__).stem
STUDY = "energy"
TITLE = "Figure 22 (not in the paper): energy of kernel over its rivals, against time"
RIVALS = (ratios.ADDED, *ratios.RIVALS)
PANELS = {"batch_first": "o", "batch_last": "^"}
RATIOS = {"time": "median_s", "energy": "energy_j", "power": "power_w"}
"""Kernel over rival: the name of a ratio, and the column that it is of."""


def caption(table: pd.DataFrame) -> str:
    """What is drawn, of which patterns, on which device."""
    rows, points = _rows(table), _points(table)
    return sentences(
        "One point for each pattern and layout: time of one product with kernel over that of the rival that takes the "
        "least energy there, and energy over energy. Below and left of 1 kernel takes less. Both are medians over the "
        "same windows, but seldom of the same one of them, so that energy over time, which is 1 on the dashed line, "
        f"differs from the ratio of the mean powers, by up to {100 * _off(points):.1f} %: points further below the "
        "line than that are of patterns where kernel draws less power than the rival, points further above it of those "
        "where it draws more. In the CSV file power is the ratio of the mean powers themselves (power_w of energy.csv, "
        "over all windows); its median is over the patterns.",
        energies.of_the_authors(rows),
        conditions(rows, " and ".join(points), *(frame.index for frame in points.values())),
    )


def missing(table: pd.DataFrame) -> str | None:
    """Why the table cannot give the figure, or None."""
    reason = energies.why_missing(table, (("kernel",), RIVALS))
    if reason is None and not _points(table):
        return "no energy in the table has a time: what is imported from the authors has none"
    return reason


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.pdf, .png and .csv (for each dtype and layout the ratios' statistics)."""
    points = _points(table)
    figure = style.new_figure(style.WIDTH * (0.25 + 0.65 * len(points)), 1.15 * style.HEIGHT)
    row = figure.subplots(1, len(points), squeeze=False)[0]
    for axes, (dtype, frame) in zip(row, points.items(), strict=True):
        _panel(axes, frame)
        axes.set_title(dtype, loc="right")
    row[0].set_ylabel("energy of kernel over\nthat of its best rival")
    row[0].legend(loc="upper left", frameon=False)
    style.save(figure, NAME, output, caption(table), _numbers(points))


def _panel(axes: Axes, frame: pd.DataFrame) -> None:
    values = frame[["time", "energy"]].to_numpy()
    low, high = min(values.min(), 1) / 1.1, max(values.max(), 1) * 1.1
    for layout, marker in PANELS.items():
        rows = frame[frame.layout == layout]
        options = {"s": 12, "marker": marker, "linewidths": 0.4, "edgecolors": "#333333", "alpha": 0.8, "zorder": 3}
        face = style.colour("kernel" if layout == "batch_first" else "bmm_strided")
        if len(rows):
            axes.scatter(rows.time, rows.energy, color=face, label=layout, **options)
    axes.plot([low, high], [low, high], color="#000000", linewidth=0.8, linestyle=(0, (4, 2)), zorder=2)
    for axis, name in ((axes.xaxis, "x"), (axes.yaxis, "y")):
        getattr(axes, f"set_{name}scale")("log")
        getattr(axes, f"set_{name}lim")(low, high)
        scales.set_ticks(axis, style.round_numbers(low, high))
    axes.axhline(1, color="#999999", linewidth=0.6)
    axes.axvline(1, color="#999999", linewidth=0.6)
    axes.grid(visible=True, axis="both")
    axes.set_xlabel("time of kernel over that of the same rival")


def _rows(table: pd.DataFrame) -> pd.DataFrame:
    return energies.first_device(table, (("kernel",), RIVALS), column="median_s")


def _points(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """By dtype: rows (pattern, batch size) with layout, and the ratios of RATIOS."""
    rows = _rows(table)
    frames = {dtype: [_against_best(rows, dtype, layout) for layout in PANELS] for dtype in energies.dtypes(rows)}
    points = {dtype: [frame for frame in members if not frame.empty] for dtype, members in frames.items()}
    return {dtype: pd.concat(members) for dtype, members in points.items() if members}


def _against_best(rows: pd.DataFrame, dtype: str, layout: str) -> pd.DataFrame:
    over = {name: energies.over_rivals(rows, dtype, layout, column, RIVALS) for name, column in RATIOS.items()}
    return pd.DataFrame(over).dropna().assign(layout=layout)


def _off(points: dict[str, pd.DataFrame]) -> float:
    """The largest difference between energy over time and the ratio of the mean powers, relative to that."""
    return max(float((rows.energy / rows.time / rows.power - 1).abs().max()) for rows in points.values())


def _numbers(points: dict[str, pd.DataFrame]) -> pd.DataFrame:
    return pd.DataFrame(
        {"dtype": dtype, "layout": layout, "kernel_over_rival": ratio, **statistics(rows[ratio])}
        for dtype, frame in points.items()
        for layout, rows in frame.groupby("layout")
        for ratio in ("time", "energy", "power")
    )


if __name__ == "__main__":
    main(__name__)
