"""One style for every figure: sizes, colours, markers and hatches per implementation, saving with the caption."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
import spare
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scales import round_numbers, set_ticks

WIDTH = 4.6
"""Inches; the text stays readable when a figure is shrunk to a column of 3.4 inches."""

HEIGHT = 2.7
"""Inches, of one row of panels."""

COLOURS = {
    "kernel": "#D55E00",
    "kernel_strict": "#7A2E00",
    "bmm_strided": "#56B4E9",
    "bmm": "#0072B2",
    "einsum": "#009E73",
    "bsr": "#CC79A7",
    "sparse": "#E69F00",
    "dense": "#5A5A5A",
    "lazylinop": "#B8A800",
}
"""Okabe and Ito's colours, which colour-blind readers tell apart; the order is that of the axes, too."""

MARKERS = {
    "kernel": "o",
    "kernel_strict": "p",
    "bmm_strided": "D",
    "bmm": "s",
    "einsum": "^",
    "bsr": "v",
    "sparse": "P",
    "dense": "X",
    "lazylinop": "h",
}
HATCHES = {
    "kernel": "",
    "kernel_strict": "**",
    "bmm_strided": "xx",
    "bmm": "//",
    "einsum": "..",
    "bsr": "\\\\",
    "sparse": "--",
    "dense": "++",
    "lazylinop": "oo",
}
LINES = {
    "kernel": "-",
    "kernel_strict": (0, (3, 1)),
    "bmm_strided": "-",
    "bmm": (0, (6, 1)),
    "einsum": (0, (4, 1, 1, 1)),
    "bsr": (0, (4, 1, 1, 1, 1, 1)),
    "sparse": (0, (1, 1)),
    "dense": (0, (2, 1)),
    "lazylinop": (0, (6, 1, 2, 1)),
}
DTYPE_LINES = {
    "float16": {"color": "#0072B2", "linestyle": "-", "linewidth": 1.6},
    "bfloat16": {"color": "#56B4E9", "linestyle": (0, (4, 1, 1, 1)), "linewidth": 1.4},
    "float32": {"color": "#D55E00", "linestyle": "-", "linewidth": 1.6},
    "float32 compensated": {"color": "#D55E00", "linestyle": "-", "linewidth": 1.6},
    "float32 strict": {"color": "#7A2E00", "linestyle": (0, (3, 1)), "linewidth": 1.4},
}
"""For curves that stand for dtypes (and precisions), all of one implementation."""

NEUTRAL_PAIR = ("#3E5C76", "#8A6D3B")
"""For two things that are no implementations: colours that none has."""

NEUTRAL = "#999999"
"""For a minimum over several implementations, which has no colour of its own, nor a hatch."""

SEVERAL = ""
"""The name to give for such a minimum where an implementation's name is asked for."""

_OF_SEVERAL = {"colour": NEUTRAL, "hatch": "", "marker": "o", "line": "-"}
_SETTINGS = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.6,
    "axes.linewidth": 0.7,
    "hatch.linewidth": 0.5,
    "hatch.color": "#FFFFFF",
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
    "mathtext.fontset": "dejavusans",
}
_CAPTION_SIZE = 6.5
_CAPTION_CHARACTERS_PER_INCH = 20.5


def new_figure(width: float = WIDTH, height: float = HEIGHT) -> Figure:
    """An empty figure in the project's style, which it also sets for what is drawn next.

    Args:
        width: inches.
        height: inches, without the caption.
    """
    matplotlib.rcParams.update(_SETTINGS)
    return Figure(figsize=(width, height), layout="constrained")


def colour(implementation: str) -> str:
    """The colour of an implementation, in every figure the same."""
    return _look("colour", COLOURS, implementation)


def hatch(implementation: str) -> str:
    """The hatch of an implementation's boxes, for print without colours."""
    return _look("hatch", HATCHES, implementation)


def marker(implementation: str) -> str:
    """The marker of an implementation's points."""
    return _look("marker", MARKERS, implementation)


def line(implementation: str) -> dict[str, object]:
    """Colour, dashes and width of an implementation's curve, the kernel's the widest, or of a dtype's."""
    if implementation in DTYPE_LINES:
        return DTYPE_LINES[implementation]
    width = 1.8 if implementation in ("kernel", SEVERAL) else 1.1
    return {"color": colour(implementation), "linestyle": _look("line", LINES, implementation), "linewidth": width}


def _look(kind: str, known: Mapping[str, Any], implementation: str) -> Any:
    if implementation == SEVERAL:
        return _OF_SEVERAL[kind]
    return known[implementation] if implementation in known else spare.look(implementation, kind)


def introduce(implementations: Iterable[str]) -> None:
    """Gives those without a look of their own a spare one; figures agree on those that were introduced together."""
    spare.introduce(set(implementations) - set(COLOURS))


def ordered(implementations: Iterable[str]) -> list[str]:
    """The names in the order in which every figure shows them; new ones come last, in alphabetical order."""
    introduce(implementations)
    order = list(COLOURS)
    return sorted(implementations, key=lambda name: (order.index(name) if name in order else len(order), name))


def ratio_axis(*panels: Axes, label: str) -> None:
    """Makes the y axes of panels one log axis of ratios, with a line at 1 and short tick labels."""
    low = min(panel.dataLim.y0 for panel in panels)
    high = max(panel.dataLim.y1 for panel in panels)
    low, high = min(low, 1.0), max(high, 1.0)
    margin = min(1.08, max(1.001, (high / low) ** 0.1))
    low, high = low / margin, high * margin
    ticks = round_numbers(low, high)
    for panel in panels:
        panel.set_yscale("log")
        panel.set_ylim(low, high)
        set_ticks(panel.yaxis, ticks)
        panel.axhline(1, color="#000000", linewidth=0.8, linestyle=(0, (4, 2)), zorder=1.5)
    size = matplotlib.rcParams["axes.labelsize"]
    panels[0].set_ylabel(label, fontsize=size if max(map(len, label.splitlines())) <= 30 else size - 1)


def set_labels(axes: Axes, positions: list[float], labels: list[str]) -> None:
    """Names the positions on the x axis, slanted where they would touch each other."""
    axes.set_xticks(positions, labels)
    spacing = axes.get_figure().get_figwidth() * 72 * 0.8 / max(1, len(positions)) / _columns(axes)
    size = matplotlib.rcParams["xtick.labelsize"]
    if max(map(len, labels)) * size * 0.62 > spacing:
        axes.set_xticks(positions, labels, rotation=45, ha="right", rotation_mode="anchor")


def save(figure: Figure, name: str, output: Path, caption: str, data: pd.DataFrame | None = None) -> None:
    """Writes <output>/<name>.pdf and .png, the caption below the figure, and the numbers behind it as .csv.

    Raises:
        OSError: the folder cannot be written.
    """
    output.mkdir(parents=True, exist_ok=True)
    characters = int(figure.get_figwidth() * _CAPTION_CHARACTERS_PER_INCH)
    text = textwrap.fill(caption, characters)
    figure.text(0.01, -0.02, text, fontsize=_CAPTION_SIZE, va="top", ha="left", color="#333333", linespacing=1.25)
    # Without a date the same table gives the same bytes.
    figure.savefig(output / f"{name}.pdf", bbox_inches="tight", metadata={"CreationDate": None})
    figure.savefig(output / f"{name}.png", bbox_inches="tight", metadata={"Software": None})
    if data is not None:
        data.to_csv(output / f"{name}.csv", index=False, float_format="%.6g", lineterminator=os.linesep)


def _columns(axes: Axes) -> int:
    grid = axes.get_subplotspec()
    return grid.get_gridspec().ncols if grid is not None else 1
