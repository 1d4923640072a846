"""Tuned against untuned (not in the paper): how far the cost model's choices are from the fastest that was measured.

By hand: python figures/tuned_vs_untuned.py --tuning ksmm/tuned/<device>.json --output FOLDER
"""

from __future__ import annotations

from pathlib import Path

import curves
import numpy as np
import pandas as pd
import style
from curves import Curve
from groups import statistics
from matplotlib.axes import Axes
from ratios import listed
from script import Source, main, sentences

NAME = Path(__file__).stem
TITLE = "Tuned against untuned (not in the paper): what the cost model's choices cost"
AIM = 1.1
"""The cost model is to be within 10 %."""
LEAST = 0.95
"""Where the axis begins: what lies below 1 was compared by CUDA graphs, and its times, of launches, scatter."""

RATIOS = {
    "untuned_over_tuned": "cost model's choice\nover the tuned kernel",
    "auto_over_best": '"auto" untuned over\nthe fastest of all',
}


def caption(problems: pd.DataFrame) -> str:
    """What is drawn, of which problems, on which device."""
    sizes = listed(f"{size:,}" for size in sorted(problems.batch_size.unique()))
    devices = listed(problems.device.unique())
    return sentences(
        "Percentage of patterns for which a choice without any measurement takes at most so many times as long as the "
        "best that tuning measured. Above: the configuration of the kernel that its cost model picks, over the fastest "
        'configuration. Below: what implementation="auto" takes for a pattern that was never tuned, over the fastest '
        f"of all implementations{_without(problems)}. The legends give the median and the percentage within 10 % "
        "(dotted).",
        _below(problems),
        f"{devices}, {problems.pattern.nunique()} patterns, batch {sizes}.",
    )


def _without(problems: pd.DataFrame) -> str:
    return ", but in strict float32, which it never takes" if problems.auto_over_best.isna().any() else ""


def _below(problems: pd.DataFrame) -> str:
    below = problems[list(RATIOS)].min(axis=1)
    if (below >= 1).all():
        return ""
    least = f", {(below < LEAST).sum()} of them left of the axis" if (below < LEAST).any() else ""
    return (
        "Products that wait for the host are compared by CUDA graphs, and their times are those of launches all the "
        f"same: so {(below < 1).sum()} of {len(problems)} problems lie below 1{least}."
    )


def missing(problems: pd.DataFrame) -> str | None:
    """Why the problems cannot give the figure, or None."""
    return "nothing is tuned: the tuning file has no problem" if problems.empty else None


def draw(problems: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.pdf, .png and .csv (one row per curve): a row of panels per ratio, a column per layout.

    Args:
        problems: what ksmm.tuning.untuned_over_tuned returns.
        output: a folder.
    """
    panels = {(ratio, layout): _panel(rows, ratio) for ratio in RATIOS for layout, rows in problems.groupby("layout")}
    layouts = list(dict.fromkeys(layout for _, layout in panels))
    figure = style.new_figure(style.WIDTH * (0.5 + 0.5 * len(layouts)), 1.6 * style.HEIGHT)
    grid = figure.subplots(len(RATIOS), len(layouts), squeeze=False, sharey=True)
    for row, (ratio, label) in zip(grid, RATIOS.items(), strict=True):
        for axes, layout in zip(row, layouts, strict=True):
            _draw_panel(axes, panels[ratio, layout], layout)
        row[0].set_ylabel(f"% of patterns:\n{label}")
    low, high = curves.limits_of(curve for members in panels.values() for curve in members)
    curves.share_axes(grid.flat, (max(low, LEAST), high))
    for axes in grid[-1]:
        axes.set_xlabel("time over the best time, at most")
    style.save(figure, NAME, output, caption(problems), _numbers(panels))


def _panel(problems: pd.DataFrame, ratio: str) -> list[Curve]:
    problems = problems[problems[ratio].notna()]
    names = (problems.dtype + " " + problems.precision.fillna("")).str.strip()
    values = {name: rows[ratio].to_numpy() for name, rows in problems.groupby(names)}
    order = [*(name for name in style.DTYPE_LINES if name in values), *(set(values) - set(style.DTYPE_LINES))]
    return [Curve(name, values[name], len(values[name])) for name in order]


def _draw_panel(axes: Axes, members: list[Curve], title: str) -> None:
    axes.set_title(title, loc="right")
    for curve in members:
        within = f"{100 * curve.share_up_to(AIM):.0f} %"
        curves.draw_up_to(axes, curve, f"{curve.name}: {np.median(curve.values):.2f}, {within}")
    axes.axvline(AIM, color="#555555", linewidth=0.8, linestyle=":", zorder=1.5)
    if not members:  # of strict float32 alone
        return
    axes.legend(loc="lower right", frameon=True, framealpha=0.85, edgecolor="none", handlelength=2.2)


def _numbers(panels: dict[tuple[str, str], list[Curve]]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "ratio": ratio,
            "layout": layout,
            "dtype": curve.name.partition(" ")[0],
            "precision": curve.name.partition(" ")[2],
            **statistics(curve.values),
            f"share_within_{AIM:g}": curve.share_up_to(AIM),
        }
        for (ratio, layout), members in panels.items()
        for curve in members
    )


def read(path: Path) -> pd.DataFrame:
    """The problems of a tuning file.

    Raises:
        ValueError: the file cannot be used.
        OSError: it cannot be read.
    """
    from ksmm.tuning import untuned_over_tuned

    return untuned_over_tuned(path)


if __name__ == "__main__":
    main(__name__, Source("--tuning", "a tuning file, ksmm/tuned/<device>.json", read))
