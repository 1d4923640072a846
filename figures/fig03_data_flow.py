"""Figure 3: what bmm and the kernel move between the levels of memory, counted on one pattern.

By hand: python figures/fig03_data_flow.py --table results/<device>/time.csv --output FOLDER
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import style
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from script import main

from ksmm.implementations import get_implementation
from ksmm.pattern_lists import BENCHMARK_BATCH_SIZE
from ksmm.patterns import Pattern
from ksmm.problem import Problem

NAME = Path(__file__).stem
TITLE = "Figure 3: data flow of bmm and of the kernel between the levels of memory"
PATTERN = Pattern(1, 768, 192, 2)
LEVELS = {"global memory": 2.0, "shared memory": 1.0, "registers": 0.0}
_READ, _WRITE = style.NEUTRAL_PAIR


@dataclass(frozen=True)
class Pass:
    """One trip of data through the processor: entries read from and written to global memory."""

    name: str
    reads: str
    read: int
    writes: str
    written: int


def caption(table: pd.DataFrame) -> str:
    """What is drawn; nothing of it is measured."""
    bmm, kernel = bmm_passes(PATTERN, BENCHMARK_BATCH_SIZE), kernel_passes(PATTERN, BENCHMARK_BATCH_SIZE)
    factor = _moved(bmm) / _moved(kernel)
    return (
        f"Entries that cross global memory for the pattern ({', '.join(map(str, PATTERN))}) and a batch of "
        f"{BENCHMARK_BATCH_SIZE:,} in batch_first, in millions: {_moved(bmm) / 1e6:.1f} in {len(bmm)} passes of bmm, "
        f"{_moved(kernel) / 1e6:.1f} in {len(kernel)} of the kernel ({factor:.2f} times fewer). A pass of bmm is "
        "counted where its code gives a tensor with memory of its own. K̃, X̃, Ỹ: permuted weights, input and output "
        "(Algorithm 1). What torch.bmm does in shared memory is not shown."
    )


def missing(table: pd.DataFrame) -> str | None:
    """None: the figure takes nothing from the table."""
    return None


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.pdf, .png and .csv (one row per pass)."""
    sides = {name: make(PATTERN, BENCHMARK_BATCH_SIZE) for name, make in _SIDES.items()}
    figure = style.new_figure(1.5 * style.WIDTH, 2.5)
    row = figure.subplots(1, 2, width_ratios=[len(sides["bmm"]), 1.6])
    for axes, (name, passes) in zip(row, sides.items(), strict=True):
        _panel(axes, passes, through_shared=name == "kernel")
        plural = "pass" if len(passes) == 1 else "passes"
        axes.set_title(f"{name}: {len(passes)} {plural}, {_moved(passes) / 1e6:.1f} M entries", fontweight="bold")
    data = pd.DataFrame([{"implementation": k, **vars(each)} for k, passes in sides.items() for each in passes])
    style.save(figure, NAME, output, caption(table), data)


def bmm_passes(pattern: Pattern, batch: int, layout: str = "batch_first") -> list[Pass]:
    """The passes of Algorithm 1 as bmm makes them; a permutation that only makes a view is none."""
    bmm, small = get_implementation("bmm"), 4
    problem = Problem(pattern, small, torch.float32, layout)
    packed = bmm.pack(torch.zeros(pattern.weight_shape), layout)
    x = torch.zeros(problem.input_shape)
    permuted = bmm.permute(packed, x)
    product = bmm.multiply(packed, permuted)
    y = bmm.permute_back(packed, product)
    inputs, outputs = x.numel() // small * batch, y.numel() // small * batch
    every = [
        (permuted, x, Pass("permute (line 1)", "X", inputs, "X̃", inputs)),
        (product, permuted, Pass("multiply (line 2)", "X̃, K̃", inputs + packed.data.numel(), "Ỹ", outputs)),
        (y, product, Pass("permute (line 3)", "Ỹ", outputs, "Y", outputs)),
    ]
    return [step for after, before, step in every if _copied(after, before)]


def _copied(after: torch.Tensor, before: torch.Tensor) -> bool:
    return after.untyped_storage().data_ptr() != before.untyped_storage().data_ptr()


def kernel_passes(pattern: Pattern, batch: int) -> list[Pass]:
    """The one pass of Algorithm 2: X and K read once, Y written once."""
    return [Pass("Algorithm 2", "X, K", batch * pattern.columns + pattern.nnz, "Y", batch * pattern.rows)]


_SIDES = {"bmm": bmm_passes, "kernel": kernel_passes}


def _moved(passes: list[Pass]) -> int:
    return sum(each.read + each.written for each in passes)


def _panel(axes: Axes, passes: list[Pass], *, through_shared: bool) -> None:
    axes.set_axis_off()
    axes.grid(visible=False)
    width = len(passes) if len(passes) > 1 else 1.6
    axes.set_xlim(0, width)
    axes.set_ylim(-0.75, 2.3)
    for name, height in LEVELS.items():
        if name == "shared memory" and not through_shared:
            continue
        shade = {"global memory": "#D9D9D9", "shared memory": "#E8E8E8", "registers": "#F2F2F2"}[name]
        axes.add_patch(Rectangle((0, height - 0.16), width, 0.32, facecolor=shade, edgecolor="#555555", linewidth=0.6))
        axes.text(width / 2, height, name, ha="center", va="center", fontsize=7)
    stops = [2.0, 1.0, 0.0] if through_shared else [2.0, 0.0]
    for number, each in enumerate(passes):
        middle = number + 0.5 if len(passes) > 1 else width / 2
        _flow(axes, middle - 0.12, stops, f"read\n{each.reads}\n{each.read / 1e6:.1f} M", _READ, "right")
        _flow(axes, middle + 0.12, stops[::-1], f"write\n{each.writes}\n{each.written / 1e6:.1f} M", _WRITE, "left")
        axes.text(middle, -0.3, each.name, ha="center", va="top", fontsize=7)


def _flow(axes: Axes, x: float, stops: list[float], text: str, colour: str, side: str) -> None:
    arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.6, "mutation_scale": 9, "shrinkA": 0, "shrinkB": 0}
    for start, end in itertools.pairwise(stops):
        direction = 1 if end > start else -1
        axes.annotate("", (x, end - 0.16 * direction), (x, start + 0.16 * direction), arrowprops=arrow)
    shift = -0.06 if side == "right" else 0.06
    height = 1.5 if len(stops) == 3 else 1.0
    axes.text(x + shift, height, text, ha=side, va="center", fontsize=6.5, color=colour)


if __name__ == "__main__":
    main(__name__)
