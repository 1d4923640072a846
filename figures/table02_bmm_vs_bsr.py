"""Table 2: how bmm and bsr carry out Algorithm 1; and bmm_strided, which the paper does not have.

By hand: python figures/table02_bmm_vs_bsr.py --table results/<device>/time.csv --output FOLDER
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import sheets
import torch
from script import main

from ksmm.implementations import get_implementation
from ksmm.implementations.bsr import LARGEST_BLOCK
from ksmm.patterns import Pattern
from ksmm.reference import reference_matmul, relative_error

NAME = Path(__file__).stem
TITLE = "Table 2: differences between bmm and bsr"
PATTERN = Pattern(2, 12, 8, 3)
TOLERANCE = 1e-12
ROWS = {
    "storage of K̃": {
        "bmm": "3D tensor (ad, b, c)",
        "bsr": "2D tensor (abd, acd) in BSR format, "
        f"with square blocks whose side is the largest common divisor of b and c up to {LARGEST_BLOCK}",
        "bmm_strided": "4D tensor (a, d, b, c)",
    },
    "line 1 of Algorithm 1": {
        "bmm": "reshape, transpose and copy",
        "bsr": "reshape, transpose and copy",
        "bmm_strided": "a strided view, no copy",
    },
    "line 2 of Algorithm 1": {
        "bmm": "torch.bmm",
        "bsr": "torch.nn.functional.linear (batch_first), torch.matmul (batch_last)",
        "bmm_strided": "torch.bmm into a strided view of Y, for each i where a > 1 and d > 1",
    },
    "line 3 of Algorithm 1": {
        "bmm": "reshape, transpose and copy",
        "bsr": "reshape, transpose and copy",
        "bmm_strided": "none: line 2 wrote Y",
    },
}


def caption(table: pd.DataFrame) -> str:
    """What is listed; nothing of it is measured."""
    return (
        f"How implementations of Algorithm 1 store the weights and multiply. The example was made by ksmm for the "
        f"pattern ({PATTERN}); the products of all three agree with the float64 reference. "
        "bmm_strided is not in the paper; it takes batch_last, and batch_first where d = 1."
    )


def missing(table: pd.DataFrame) -> str | None:
    """None: the table is computed from the library."""
    return None


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.csv and .md."""
    names = list(ROWS["storage of K̃"])
    rows = [{"step": step, **cells} for step, cells in ROWS.items()]
    rows.insert(1, {"step": f"example: K̃ for ({PATTERN})", **{name: _stored(name) for name in names}})
    sheets.save(pd.DataFrame(rows), NAME, output, caption(table))


def _stored(name: str) -> str:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(PATTERN.weight_shape, dtype=torch.float64, generator=generator)
    x = torch.randn(PATTERN.columns, 4, dtype=torch.float64, generator=generator)
    implementation = get_implementation(name)
    packed = implementation.pack(weight, "batch_last")
    error = relative_error(implementation.matmul(packed, x), reference_matmul(weight, x, "batch_last"))
    if not error <= TOLERANCE:
        raise ValueError(f"{name} differs from the reference by {error} on pattern {PATTERN}, more than {TOLERANCE}")
    shape = tuple(packed.data.shape)
    if packed.data.layout == torch.sparse_bsr:
        blocks = packed.data.values().shape
        return f"{shape}, {blocks[0]} blocks of {blocks[1]} × {blocks[2]}"
    return str(shape)


if __name__ == "__main__":
    main(__name__)
