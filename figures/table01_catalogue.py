"""Table 1: known families of structured matrices as chains of Kronecker patterns, each with an example.

By hand: python figures/table01_catalogue.py --table results/<device>/time.csv --output FOLDER
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import sheets
import torch
from script import main

from ksmm import catalogue
from ksmm.patterns import Chain
from ksmm.reference import to_dense

NAME = Path(__file__).stem
TITLE = "Table 1: matrices of neural networks as products of Kronecker-sparse factors"


@dataclass(frozen=True)
class Family:
    """A row of Table 1: the paper's formulas, an example made by `ksmm.catalogue`, the size that it must have."""

    name: str
    size: str
    patterns: str
    example: Chain
    example_size: tuple[int, int]


FAMILIES = (
    Family("dense", "M × N", "(1, M, N, 1)", catalogue.dense(48, 32), (48, 32)),
    Family("low-rank", "M × N", "(1, M, r, 1), (1, r, N, 1)", catalogue.low_rank(48, 32, 8), (48, 32)),
    Family(
        "square dyadic",
        "N × N with N = 2^L",
        "(2^(l-1), 2, 2, 2^(L-l)) for l = 1 … L",
        catalogue.square_dyadic(16),
        (16, 16),
    ),
    Family(
        "kaleidoscope",
        "N × N with N = 2^L",
        "(2^(l-1), 2, 2, 2^(L-l)) for l = 1 … L, then (2^(L-l), 2, 2, 2^(l-1)) for l = 1 … L",
        catalogue.kaleidoscope(8),
        (8, 8),
    ),
    Family(
        "block butterfly",
        "N × N with N = 2^L t",
        "(2^(l-1), 2t, 2t, 2^(L-l)) for l = 1 … L",
        catalogue.block_butterfly(48, 6),
        (48, 48),
    ),
    Family(
        "Monarch",
        "M × N",
        "(1, M/p, min(M, N)/p, p), (p, min(M, N)/p, N/p, 1)",
        catalogue.monarch(48, 32, 4),
        (48, 32),
    ),
    Family(
        "deformable butterfly",
        "M × N with M = a_1 b_1 d_1, N = a_L c_L d_L",
        "(a_l, b_l, c_l, d_l) for l = 1 … L such that a_l c_l d_l = a_(l+1) b_(l+1) d_(l+1)",
        catalogue.deformable_butterfly([(1, 4, 3, 12), (3, 6, 4, 2), (6, 4, 4, 1)]),
        (48, 24),
    ),
)


def caption(table: pd.DataFrame) -> str:
    """What is listed; nothing of it is measured."""
    return (
        "A matrix W = K_1 … K_L and the patterns of its factors, with an example made by ksmm.catalogue. Checked: the "
        "product of the example's factors, with all weights positive, has the example's size and no zero entry. "
        "Density is the number of weights over the number of entries of W."
    )


def missing(table: pd.DataFrame) -> str | None:
    """None: the table is computed from the library."""
    return None


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.csv and .md."""
    sheets.save(pd.DataFrame([_line(family) for family in FAMILIES]), NAME, output, caption(table))


def _line(family: Family) -> dict[str, object]:
    product = functools.reduce(torch.matmul, (to_dense(torch.ones(p.weight_shape)) for p in family.example))
    if tuple(product.shape) != family.example_size or not (product > 0).all():
        raise ValueError(
            f"the example of {family.name}, {family.example}, gives a {tuple(product.shape)} matrix with "
            f"{int((product == 0).sum())} zeros; expected {family.example_size} without zeros"
        )
    return {
        "matrix": family.name,
        "size": family.size,
        "kronecker_patterns": family.patterns,
        "example": ", ".join(f"({pattern})" for pattern in family.example),
        "example_size": "{} × {}".format(*family.example.shape),
        "weights": family.example.nnz,
        "density": round(family.example.density, 3),
    }


if __name__ == "__main__":
    main(__name__)
