"""Figure 5: Algorithm 2 on the pattern (2, 3, 2, 3) with a batch of 8: rows and columns of two steps of its loop.

By hand: python figures/fig05_algorithm2.py --table results/<device>/time.csv --output FOLDER
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import style
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from script import main

from ksmm.patterns import Pattern
from ksmm.reference import reference_matmul, to_dense

NAME = Path(__file__).stem
TITLE = "Figure 5: Algorithm 2, the tiling of the kernel"
PATTERN = Pattern(2, 3, 2, 3)
BATCH = 8
STEPS = ((0, 1), (1, 1))
COLOURS = ("#FFFFFF", "#DDDDDD", *style.NEUTRAL_PAIR)
"""Of a zero, another entry of the support, and what each of the two steps touches."""


def caption(table: pd.DataFrame) -> str:
    """What is drawn; nothing of it is measured."""
    sets = "; ".join(f"(i, j) = {step}: col = {_set(columns)}, row = {_set(rows)}" for step, rows, columns in _steps())
    return (
        f"Y[:, row] ← X[:, col] Kᵀ[col, row] for two (i, j) of the loop of Algorithm 2, with (a, b, c, d) = "
        f"({', '.join(map(str, PATTERN))}) and a batch of {BATCH}. {sets}. Grey: the rest of the support. "
        "Computed by ksmm: the loop over all (i, j) was run and gives the reference product."
    )


def missing(table: pd.DataFrame) -> str | None:
    """None: the figure takes nothing from the table."""
    return None


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.pdf, .png and .csv (matrix, row, column and step of every coloured cell)."""
    _check(PATTERN, BATCH)
    matrices = _matrices()
    figure = style.new_figure(1.5 * style.WIDTH, 2.1)
    row = figure.subplots(1, 3, width_ratios=[matrix.shape[1] for matrix in matrices.values()])
    for axes, (name, matrix) in zip(row, matrices.items(), strict=True):
        _grid(axes, matrix)
        axes.set_title(f"{name}  ({matrix.shape[0]} × {matrix.shape[1]})")
    for axes, sign in zip(row[1:], ("·", "="), strict=True):
        axes.text(-0.08, 0.5, sign, transform=axes.transAxes, ha="right", va="center", fontsize=12)
    handles = [Patch(facecolor=COLOURS[2 + k], label=f"(i, j) = {step}") for k, step in enumerate(STEPS)]
    figure.legend(handles=handles, loc="outside upper center", ncols=2, frameon=False)
    style.save(figure, NAME, output, caption(table), _cells(matrices))


def rows_and_columns(pattern: Pattern, i: int, j: int) -> tuple[list[int], list[int]]:
    """(row, col) of lines 3 and 4 of Algorithm 2: {i·M/a + j + kd : k < b} and {i·N/a + j + ℓd : ℓ < c}."""
    rows = [i * pattern.rows // pattern.a + j + k * pattern.d for k in range(pattern.b)]
    columns = [i * pattern.columns // pattern.a + j + k * pattern.d for k in range(pattern.c)]
    return rows, columns


def _steps() -> list[tuple[tuple[int, int], list[int], list[int]]]:
    return [(step, *rows_and_columns(PATTERN, *step)) for step in STEPS]


def _check(pattern: Pattern, batch: int) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(pattern.weight_shape, dtype=torch.float64, generator=generator)
    x = torch.randn(batch, pattern.columns, dtype=torch.float64, generator=generator)
    y, matrix = torch.zeros(batch, pattern.rows, dtype=torch.float64), to_dense(weight)
    for i in range(pattern.a):
        for j in range(pattern.d):
            rows, columns = rows_and_columns(pattern, i, j)
            y[:, rows] = x[:, columns] @ matrix.T[columns][:, rows]
    if not torch.allclose(y, reference_matmul(weight, x, "batch_first"), rtol=0, atol=1e-12):
        raise ValueError(f"Algorithm 2 on pattern {pattern} does not give the reference product")


def _matrices() -> dict[str, np.ndarray]:
    x, y = np.zeros((BATCH, PATTERN.columns), int), np.zeros((BATCH, PATTERN.rows), int)
    transposed = PATTERN.support().T.int().numpy()
    for number, (_, rows, columns) in enumerate(_steps(), start=2):
        x[:, columns], y[:, rows] = number, number
        transposed[np.ix_(columns, rows)] = number
    return {"X": x, "Kᵀ": transposed, "Y": y}


def _grid(axes: Axes, matrix: np.ndarray) -> None:
    axes.imshow(matrix, cmap=ListedColormap(COLOURS), vmin=0, vmax=len(COLOURS) - 1, interpolation="nearest")
    axes.set_xticks(np.flatnonzero((matrix > 1).any(axis=0)))
    touched = np.flatnonzero((matrix > 1).any(axis=1))
    axes.set_yticks(touched if len(touched) < len(matrix) else [])
    axes.tick_params(length=0, labelsize=6)
    axes.grid(visible=False)
    for edge in range(1, matrix.shape[1]):
        axes.axvline(edge - 0.5, color="#C8C8C8", linewidth=0.4)
    for edge in range(1, matrix.shape[0]):
        axes.axhline(edge - 0.5, color="#C8C8C8", linewidth=0.4)
    for spine in axes.spines.values():
        spine.set_visible(True)


def _cells(matrices: dict[str, np.ndarray]) -> pd.DataFrame:
    parts = []
    for name, matrix in matrices.items():
        rows, columns = np.nonzero(matrix > 1)
        steps = ["({}, {})".format(*STEPS[number - 2]) for number in matrix[rows, columns]]
        parts.append(pd.DataFrame({"matrix": name, "row": rows, "column": columns, "step": steps}))
    return pd.concat(parts)


def _set(numbers: list[int]) -> str:
    return "{" + ", ".join(map(str, numbers)) + "}"


if __name__ == "__main__":
    main(__name__)
