"""Box plots in the paper's convention: median, quartiles, whiskers at the 5th and 95th percentile, no outliers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import style
from groups import FEW, Group, statistics
from matplotlib.axes import Axes
from scales import round_numbers

_SMALL = {"va": "bottom", "fontsize": 5.5, "color": "#555555"}


def convention(groups: Iterable[Group]) -> str:
    """What the caption says of the boxes, and of the points if some group is small enough to show them."""
    small = any(len(group.values) < FEW for group in groups)
    points = f" Groups of fewer than {FEW} patterns also show each pattern." if small else ""
    return f"Boxes: median and quartiles, whiskers at the 5th and 95th percentile, outliers not drawn.{points}"


def draw_boxes(
    axes: Axes,
    samples: Sequence[np.ndarray],
    positions: Sequence[float],
    widths: Sequence[float],
    names: Sequence[str],
) -> None:
    """Draws a box for each sample, in the colour and hatch of the implementation that `names` gives for it.

    Numbers of values are written above the boxes; samples of fewer than 8 values show the values, too.
    """
    for values, position, width, name in zip(samples, positions, widths, names, strict=True):
        numbers = statistics(values)
        box = axes.bxp(
            [{"med": numbers["median"], **{k: numbers[k] for k in ("q1", "q3")}, **_whiskers(numbers)}],
            positions=[position],
            widths=[width],
            showfliers=False,
            patch_artist=True,
            manage_ticks=False,
            boxprops={"facecolor": style.colour(name), "hatch": style.hatch(name), "linewidth": 0.6, "alpha": 0.75},
            medianprops={"color": "#000000", "linewidth": 1.3},
            whiskerprops={"linewidth": 0.8},
            capprops={"linewidth": 0.8},
        )
        box["boxes"][0].set_zorder(2)
        if len(values) < FEW:
            axes.plot(
                np.full(len(values), position),
                values,
                linestyle="",
                marker=style.marker(name),
                markersize=3,
                markerfacecolor="#FFFFFF",
                markeredgecolor="#333333",
                markeredgewidth=0.5,
                alpha=0.85,
                zorder=3,
            )
    write_numbers(axes, positions, [len(values) for values in samples])


def write_numbers(axes: Axes, positions: Sequence[float], numbers: Sequence[int]) -> None:
    """Writes how many values each box stands for above the axes."""
    transform = axes.get_xaxis_transform()
    for position, number in zip(positions, numbers, strict=True):
        axes.text(position, 1.01, str(number), transform=transform, ha="center", **_SMALL)
    axes.text(-0.01, 1.01, "n", transform=axes.transAxes, ha="right", **_SMALL)


def boxes_by_value(axes: Axes, groups: Sequence[Group], name: str, label: str) -> None:
    """Boxes side by side, each named by its value or range of values; a common power of ten goes into the label."""
    positions = list(range(len(groups)))
    draw_boxes(axes, [g.values for g in groups], positions, [0.65] * len(groups), [name] * len(groups))
    scale, unit = (1e3, " [10⁻³]") if max(g.high for g in groups) < 0.1 else (1, "")
    style.set_labels(axes, positions, [_range(g.low * scale, g.high * scale) for g in groups])
    axes.set_xlim(-0.6, len(groups) - 0.4)
    axes.set_xlabel(label + unit if label else "")


def boxes_by_decades(axes: Axes, groups: Sequence[Group], name: str, label: str) -> None:
    """Boxes over a log axis, each as wide as the range it stands for."""
    if groups[0].low == groups[0].high:
        boxes_by_value(axes, groups, name, label)
        return
    # Drawn over log10(x), where the boxes can be as wide as their ranges and in the middle of them.
    limits = np.log10([[g.low, g.high] for g in groups])
    widths = 0.75 * (limits[:, 1] - limits[:, 0])
    draw_boxes(axes, [g.values for g in groups], limits.mean(axis=1), widths, [name] * len(groups))
    margin = 0.1 * widths[0]
    axes.set_xlim(limits[0, 0] - margin, limits[-1, 1] + margin)
    ticks = round_numbers(groups[0].low, groups[-1].high)
    axes.set_xticks(np.log10(ticks), [_short(tick) for tick in ticks])
    axes.set_xlabel(label)


def boxes_by_name(axes: Axes, samples: Mapping[str, np.ndarray]) -> None:
    """One box for each implementation, side by side, in its colour."""
    positions = list(range(len(samples)))
    draw_boxes(axes, list(samples.values()), positions, [0.65] * len(samples), list(samples))
    style.set_labels(axes, positions, list(samples))
    axes.set_xlim(-0.6, len(samples) - 0.4)


def _whiskers(numbers: dict[str, float]) -> dict[str, float]:
    return {"whislo": numbers["p5"], "whishi": numbers["p95"], "fliers": []}


def _range(low: float, high: float) -> str:
    return _plain(low) if low == high else f"{_plain(low)}–{_plain(high)}"


def _plain(number: float) -> str:
    """Three digits of a small number; of a large one all, for sizes of matrices are exact."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def _short(number: float) -> str:
    """0.01 as it is; 10000 as 10⁴, 20000 as 2·10⁴."""
    exponent = int(np.floor(np.log10(number) + 1e-9))
    if -4 < exponent < 4:
        return f"{number:g}"
    mantissa = number / 10.0**exponent
    power = f"10$^{{{exponent}}}$"
    return power if abs(mantissa - 1) < 1e-9 else f"{mantissa:g}·{power}"
