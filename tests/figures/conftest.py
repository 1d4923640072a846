"""Synthetic tables of measurements, and the modules of figures/ on the path, as their scripts find them."""

import sys
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from ksmm.table import write_table
from tests.figures import drawn
from tests.figures.synthetic_table import synthetic_table

FIGURES = Path(__file__).resolve().parents[2] / "figures"
sys.path.insert(0, str(FIGURES))


@pytest.fixture(scope="session")
def table() -> pd.DataFrame:
    """40 patterns, three dtypes, both layouts, all implementations, some measurements skipped or failed."""
    return synthetic_table(40)


@pytest.fixture(scope="session")
def small_table() -> pd.DataFrame:
    """What a laptop gives: 20 patterns in float32 on a CPU."""
    return synthetic_table(20, ["float32"], 1024, "cpu-x86_64", "Some CPU")


@pytest.fixture(scope="session")
def failed_table(table: pd.DataFrame) -> pd.DataFrame:
    """Nothing but failures."""
    return failing(table)


@pytest.fixture
def table_path(table: pd.DataFrame, tmp_path: Path) -> Path:
    """The full table as a file."""
    write_table(table, tmp_path / "time.csv")
    return tmp_path / "time.csv"


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> dict[Figure, str]:
    """Saved figures are checked instead, once each; these, and the names of their files."""
    names = {}

    def check(figure, path, **options):
        if figure not in names:
            drawn.check(figure)
        names[figure] = path.stem
        path.write_text("checked")

    monkeypatch.setattr(Figure, "savefig", check)
    return names


def failing(table: pd.DataFrame) -> pd.DataFrame:
    """The same measurements, none of which gave a time."""
    numbers = ["median_s", "iqr_s", "cuda_graph_median_s", "relative_error"]
    failed = table.assign(status="failed", reason="the device fell over", samples=0, runs_per_sample=0, protocol_met="")
    failed[numbers] = float("nan")
    return failed
