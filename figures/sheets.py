"""Writing a table as CSV and as Markdown."""

from __future__ import annotations

from pathlib import Path

import pandas as pd


def save(frame: pd.DataFrame, name: str, output: Path, caption: str) -> None:
    """Writes <output>/<name>.csv, and <output>/<name>.md with the caption below the table.

    Raises:
        OSError: the folder cannot be written.
    """
    output.mkdir(parents=True, exist_ok=True)
    frame.to_csv(output / f"{name}.csv", index=False, lineterminator="\n")
    (output / f"{name}.md").write_text(f"{markdown(frame)}\n\n{caption}\n", encoding="utf-8")


def markdown(frame: pd.DataFrame) -> str:
    """The rows as a Markdown table, empty cells for missing values."""
    return frame.map(_cell).to_markdown(index=False, disable_numparse=True)


def _cell(value: object) -> str:
    # A bar would begin another cell.
    return "" if pd.isna(value) else str(value).replace("|", "\\|")
