"""Every measurement that is not ok, by implementation, dtype, layout and status, with its reason (not in the paper).

By hand: python figures/table_status.py --table results/<device>/time.csv --output FOLDER
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import sheets
from ratios import PROBLEM
from script import conditions, main

NAME = Path(__file__).stem
TITLE = "Table of statuses (not in the paper): what was not measured, and why"
_KEYS = ["implementation", "dtype", "layout", "part", "status"]


def caption(table: pd.DataFrame) -> str:
    """What is listed, of which patterns, on which device."""
    failed = table[table.status != "ok"]
    return (
        f"The {len(failed):,} of {len(table):,} measurements that are not ok. Reasons that differ only in their "
        "numbers are one row, which gives the first pattern and its reason. "
        f"{conditions(table, None, table.set_index(PROBLEM).index)}"
    )


def missing(table: pd.DataFrame) -> str | None:
    """Why there is nothing to list, or None."""
    if table.empty:
        return "the table has no measurements"
    return f"all {len(table):,} measurements are ok" if (table.status == "ok").all() else None


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.csv and .md."""
    failed = table[table.status != "ok"].assign(reason=lambda rows: rows.reason.replace("", "no reason given"))
    kind = failed.reason.map(lambda reason: re.sub(r"\d+([.,]\d+)*(e[+-]?\d+)?", "#", reason))
    grouped = failed.groupby([*_KEYS, kind.rename("kind")], sort=True)
    frame = grouped.agg(patterns=("pattern", "nunique"), first_pattern=("pattern", "first"), reason=("reason", "first"))
    sheets.save(frame.reset_index().drop(columns="kind"), NAME, output, caption(table))


if __name__ == "__main__":
    main(__name__)
