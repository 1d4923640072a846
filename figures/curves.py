"""Curves over patterns on a log axis of ratios: the share of patterns up to a ratio (ECDF), or from it on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scales import round_numbers, set_ticks

FARTHEST = 50.0
"""Where the axis ends, however large the ratios are: what lies beyond differs in nothing that matters."""

_MOST_TICKS = 9
"""More labels than that run into each other where two panels share a row."""


@dataclass(frozen=True)
class Curve:
    """The ratios of one implementation (or minimum) over patterns.

    Attributes:
        name: the implementation, for colour and dashes; style.SEVERAL for a minimum over several.
        values: one ratio for each pattern that has one.
        total: the number of patterns that shares are taken of; those without a ratio count as farthest from the best.
    """

    name: str
    values: np.ndarray
    total: int

    def share_up_to(self, limit: float) -> float:
        """Fraction of the patterns with a ratio of at most `limit`."""
        return float((self.values <= limit).sum() / self.total)

    def share_above(self, limit: float) -> float:
        """Fraction of the patterns with a ratio larger than `limit`."""
        return float((self.values > limit).sum() / self.total)


def draw_up_to(axes: Axes, curve: Curve, label: str) -> None:
    """Draws which percentage of the patterns has a ratio of at most x."""
    values = np.sort(curve.values)
    shares = 100 * np.arange(1, len(values) + 1) / curve.total
    _draw(axes, curve.name, [values[0], *values, 1e9], [0, *shares, shares[-1]], label)


def draw_from(axes: Axes, curve: Curve, label: str) -> None:
    """Draws which percentage of the patterns has a ratio of at least x."""
    values = np.sort(curve.values)
    shares = 100 * np.arange(len(values), -1, -1) / curve.total
    _draw(axes, curve.name, [1e-9, *values], shares, label)


def _draw(axes: Axes, name: str, x: Sequence[float], y: Sequence[float], label: str) -> None:
    axes.step(x, y, where="post", label=label, zorder=3 if name in ("kernel", style.SEVERAL) else 2, **style.line(name))


def limits_of(curves: Iterable[Curve]) -> tuple[float, float]:
    """The ends of an axis that shows all ratios up to FARTHEST, and 1."""
    values = np.concatenate([[1.0], *(curve.values for curve in curves)])
    return float(values.min()) / 1.1, min(float(values.max()) * 1.1, FARTHEST)


def share_axes(panels: Sequence[Axes], limits: tuple[float, float], label: str = "") -> None:
    """Makes the axes of panels those of shares of patterns over ratios, with a line at 1."""
    low, high = limits
    for axes in panels:
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        set_ticks(axes.xaxis, _ticks(low, high))
        axes.axvline(1, color="#000000", linewidth=0.8, linestyle=(0, (4, 2)), zorder=1.5)
        axes.set_ylim(-2, 102)
        axes.set_yticks([0, 25, 50, 75, 100])
        axes.grid(visible=True, axis="x")
        axes.set_xlabel(label)


def draw_grid(
    panels: Mapping[tuple[str, str], Any],
    draw: Callable[[Axes, Any, str], None],
    limits: tuple[float, float],
    label: str,
) -> tuple[Figure, np.ndarray]:
    """A row of panels for each dtype and a column for each layout, on one axis of ratios.

    Args:
        panels: what there is to draw, by (dtype, layout).
        draw: draws that on axes, with a title.
        limits: of the axis.
        label: of the axis.
    """
    dtypes, layouts = (list(dict.fromkeys(key[i] for key in panels)) for i in (0, 1))
    figure = style.new_figure(style.WIDTH * (0.5 + 0.5 * len(layouts)), 0.75 * style.HEIGHT * len(dtypes) + 0.6)
    grid = figure.subplots(len(dtypes), len(layouts), squeeze=False, sharey=True)
    for i, dtype in enumerate(dtypes):
        for j, layout in enumerate(layouts):
            grid[i, j].set_visible((dtype, layout) in panels)
            if (dtype, layout) in panels:
                draw(grid[i, j], panels[dtype, layout], f"{dtype}, {layout}")
        grid[i, 0].set_ylabel("% of patterns")
    share_axes(grid.flat, limits)
    for axes in grid[-1]:
        axes.set_xlabel(label)
    return figure, grid


def common_legend(figure: Figure, panels: Iterable[Axes], columns: int) -> None:
    """One legend above all panels, each label once, in the order of the implementations."""
    handles = {}
    for axes in panels:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    names = style.ordered(set(handles))
    figure.legend(
        [handles[name] for name in names],
        names,
        loc="outside upper center",
        ncols=columns,
        frameon=False,
        handlelength=3,
    )


def _ticks(low: float, high: float) -> list[float]:
    # 0.5, 1, 2, 5, 10 … where they are enough; a narrow axis has more, a wide one fewer.
    for mantissas in ((1, 2, 5), (1, 3), (1,)):
        ticks = [m * 10.0**k for k in range(-9, 9) for m in mantissas if low <= m * 10.0**k <= high]
        if len(ticks) <= _MOST_TICKS:
            break
    return [float(f"{tick:.6g}") for tick in ticks] if len(ticks) >= 3 else round_numbers(low, high)
