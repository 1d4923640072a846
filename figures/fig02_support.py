"""Figure 2: the support of a Kronecker-sparse matrix, coloured by free weight.

By hand: python figures/fig02_support.py --table results/<device>/time.csv --output FOLDER
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import style
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from script import main

from ksmm.patterns import Pattern
from ksmm.reference import to_dense

NAME = Path(__file__).stem
TITLE = "Figure 2: support of a Kronecker-sparse matrix"
PATTERN = Pattern(3, 2, 3, 4)


def caption(table: pd.DataFrame) -> str:
    """What is drawn; nothing of it is measured."""
    a, b, c, d = PATTERN
    return (
        f"The support of the pattern (a, b, c, d) = ({a}, {b}, {c}, {d}), a {PATTERN.rows} × {PATTERN.columns} matrix: "
        f"a = {a} blocks on the diagonal, each of b × c = {b} × {c} diagonal matrices of size d × d = {d} × {d}. "
        f"Each of the {PATTERN.nnz} coloured entries is a free weight, and each has a colour of its own; "
        f"density 1/(ad) = {PATTERN.density:.3g}. Computed by ksmm."
    )


def missing(table: pd.DataFrame) -> str | None:
    """None: the figure takes nothing from the table."""
    return None


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.pdf, .png and .csv (row, column and weight number of every entry of the support)."""
    numbers = weight_numbers(PATTERN)
    figure = style.new_figure(style.WIDTH, 0.72 * style.WIDTH)
    axes = figure.subplots()
    axes.imshow(np.ma.masked_equal(numbers, 0), cmap="viridis", interpolation="nearest")
    axes.set_axis_off()
    axes.grid(visible=False)
    _outlines(axes, PATTERN)
    _dimensions(axes, PATTERN)
    rows, columns = np.nonzero(numbers)
    data = pd.DataFrame({"row": rows, "column": columns, "weight": numbers[rows, columns] - 1})
    style.save(figure, NAME, output, caption(table), data)


def weight_numbers(pattern: Pattern) -> np.ndarray:
    """The matrix whose entries count the weights from 1, in the order of the canonical tensor; 0 off the support.

    Raises:
        ValueError: its nonzero entries are not the pattern's support.
    """
    numbers = to_dense(torch.arange(1, pattern.nnz + 1).view(pattern.weight_shape))
    if not torch.equal(numbers != 0, pattern.support()):
        raise ValueError(f"the entries of the matrix of pattern {pattern} are not the pattern's support")
    return numbers.numpy()


def _outlines(axes: Axes, pattern: Pattern) -> None:
    a, b, c, d = pattern
    line = {"fill": False, "edgecolor": "#B0B0B0", "linewidth": 0.6}
    for i in range(a):
        for k in range(b):
            for m in range(c):
                corner = (i * c * d + m * d - 0.5, i * b * d + k * d - 0.5)
                axes.add_patch(Rectangle(corner, d, d, **line))
        block = (i * c * d - 0.5, i * b * d - 0.5)
        axes.add_patch(Rectangle(block, c * d, b * d, fill=False, edgecolor="#000000", linewidth=1.1))
    whole = Rectangle((-0.5, -0.5), pattern.columns, pattern.rows, fill=False, edgecolor="#000000", linewidth=0.8)
    axes.add_patch(whole)


def _dimensions(axes: Axes, pattern: Pattern) -> None:
    _, b, c, d = pattern
    _span(axes, (0, c * d), -1.2, f"c·d = {c * d}", vertical=False)
    _span(axes, (0, b * d), -1.2, f"b·d = {b * d}", vertical=True)
    last = pattern.columns - d
    _span(axes, (last, last + d), pattern.rows + 0.3, "d", vertical=False, outside=1)
    _span(axes, (0, pattern.columns), -4.0, f"N = a·c·d = {pattern.columns}", vertical=False)
    _span(axes, (0, pattern.rows), -4.0, f"M = a·b·d = {pattern.rows}", vertical=True)
    axes.set_xlim(-6.2, pattern.columns + 0.5)
    axes.set_ylim(pattern.rows + 2.4, -6.2)


def _span(axes: Axes, limits: tuple[int, int], at: float, text: str, *, vertical: bool, outside: int = -1) -> None:
    ends = [limit - 0.5 for limit in limits]
    points = [(at, ends[0]), (at, ends[1])] if vertical else [(ends[0], at), (ends[1], at)]
    arrow = {"arrowstyle": "<->", "linewidth": 0.7, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 6}
    axes.annotate("", points[0], points[1], arrowprops=arrow)
    middle, off = sum(ends) / 2, at + 0.9 * outside
    place = (off, middle) if vertical else (middle, off)
    axes.text(*place, text, fontsize=7, ha="center", va="center", rotation=90 if vertical else 0)


if __name__ == "__main__":
    main(__name__)
