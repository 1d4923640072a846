"""Figure 1: the DFT matrix of size 16, its columns permuted, as a product of four Kronecker-sparse factors.

By hand: python figures/fig01_dft_factorisation.py --table results/<device>/time.csv --output FOLDER
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pandas as pd
import style
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.image import AxesImage
from script import main

from ksmm.catalogue import square_dyadic
from ksmm.fourier import bit_reversal, dft_matrix, dft_weights
from ksmm.reference import to_dense

NAME = Path(__file__).stem
TITLE = "Figure 1: butterfly factorisation of the discrete Fourier transform"
SIZE = 16
TOLERANCE = 1e-12
# Phases come round to where they began; neighbouring quarters stay apart for colour-blind readers.
_PHASES = LinearSegmentedColormap.from_list("phase", ["#0072B2", "#CC79A7", "#E69F00", "#009E73", "#0072B2"])


def caption(table: pd.DataFrame) -> str:
    """What is drawn; nothing of it is measured."""
    return (
        f"W = K₁K₂K₃K₄ is the DFT matrix of size {SIZE} with its columns in bit-reversed order. White entries are "
        "zero; colours show the phase of the others, all of modulus 1. Computed by ksmm.fourier; the product of the "
        f"factors differs from W by at most {_factorisation()[2]:.0e} in any entry."
    )


def missing(table: pd.DataFrame) -> str | None:
    """None: the figure takes nothing from the table."""
    return None


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.pdf, .png and .csv (row, column, real and imaginary part of every nonzero entry)."""
    factors, product, _ = _factorisation()
    patterns = square_dyadic(SIZE)
    matrices = {"W": product, **{f"K$_{i}$": factor for i, factor in enumerate(factors, start=1)}}
    below = ["DFT, columns\nbit-reversed", *(str(tuple(pattern)) for pattern in patterns)]
    figure = style.new_figure(1.5 * style.WIDTH, 1.7)
    row = figure.subplots(1, len(matrices))
    for axes, (name, matrix), text in zip(row, matrices.items(), below, strict=True):
        image = _draw_matrix(axes, matrix)
        axes.set_title(name)
        axes.set_xlabel(text)
    for axes, sign in zip(row[1:], "=···", strict=True):
        axes.text(-0.11, 0.5, sign, transform=axes.transAxes, ha="center", va="center", fontsize=12)
    bar = figure.colorbar(image, ax=list(row), ticks=[-np.pi, 0, np.pi], shrink=0.7, aspect=14, pad=0.02)
    bar.ax.set_yticklabels(["−π", "0", "π"])
    bar.set_label("phase")
    style.save(figure, NAME, output, caption(table), pd.concat([_entries(k, m) for k, m in matrices.items()]))


@functools.cache
def _factorisation() -> tuple[list[np.ndarray], np.ndarray, float]:
    factors = [to_dense(weight).numpy() for weight in dft_weights(SIZE)]
    product = dft_matrix(SIZE).numpy()[:, bit_reversal(SIZE).numpy()]
    error = float(np.abs(functools.reduce(np.matmul, factors) - product).max())
    if error > TOLERANCE:
        raise ValueError(f"the product of the factors differs from the DFT matrix by {error}, more than {TOLERANCE}")
    return factors, product, error


def _draw_matrix(axes: Axes, matrix: np.ndarray) -> AxesImage:
    phases = np.ma.masked_where(np.abs(matrix) < TOLERANCE, np.angle(matrix))
    # An angle of π may come out as −π; both are the same colour, but not the same on the bar.
    image = axes.imshow(phases, cmap=_PHASES, vmin=-np.pi, vmax=np.pi, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(True)
    return image


def _entries(name: str, matrix: np.ndarray) -> pd.DataFrame:
    rows, columns = np.nonzero(np.abs(matrix) >= TOLERANCE)
    values = matrix[rows, columns]
    name = name.replace("$", "").replace("_", "")
    return pd.DataFrame({"matrix": name, "row": rows, "column": columns, "real": values.real, "imaginary": values.imag})


if __name__ == "__main__":
    main(__name__)
