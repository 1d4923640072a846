"""Figure 4: share of bmm's time that goes into rewriting memory, by (b+c)/(bc), in batch_first.

By hand: python figures/fig04_memory_rewritings.py --table results/<device>/time.csv --output results/<device>/figures
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import rewritings
from script import main

NAME = Path(__file__).stem
TITLE = "Figure 4: share of bmm's time spent on memory rewritings, by (b+c)/(bc)"


def caption(table: pd.DataFrame) -> str:
    """What is drawn, of which patterns, on which device."""
    return rewritings.caption(table, "float32", ["batch_first"])


def missing(table: pd.DataFrame) -> str | None:
    """Why the table cannot give the figure, or None."""
    return rewritings.missing(table, "float32", ["batch_first"])


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.pdf, .png and .csv (one row per box)."""
    rewritings.draw(table, output, NAME, "float32", ["batch_first"])


if __name__ == "__main__":
    main(__name__)
