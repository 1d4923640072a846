"""What the notebooks share: finding the table, the layouts that a parameter stands for, showing text and tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import sheets
import style
from IPython.display import Markdown, display
from script import FOLDER, TABLES, of_one_device

from ksmm.names import LAYOUTS

ROOT = FOLDER.parent


def load(table: str, device: str, dtype: str, source: str = "time") -> pd.DataFrame:
    """The measurements of a device, from the table given or from the first one there is.

    Args:
        table: path of <source>.csv; "" takes the first of results/*/<source>.csv and measurements/*/<source>.csv.
        device: slug; "" takes the device that the table is of.
        dtype: must be in the table.
        source: one of script.TABLES.

    Raises:
        FileNotFoundError: there is no table.
        ValueError: it has no measurement of that device, or of that dtype, or is of several devices.
    """
    path = Path(table) if table else _first_table(device, source)
    frame = TABLES[source].read(path)
    if device:
        frame = _only(frame, "device", device, path)
    of_one_device(frame, source, "give the parameter device")
    style.introduce(frame.implementation)
    _only(frame, "dtype", dtype, path)
    return frame


def chosen_layouts(layout: str) -> tuple[str, ...]:
    """The layouts that "batch_first", "batch_last" or "both" stands for.

    Raises:
        ValueError: it is none of these.
    """
    if layout != "both" and layout not in LAYOUTS:
        raise ValueError(f"layout is {layout!r}; choose one of {', '.join(LAYOUTS)} or both")
    return LAYOUTS if layout == "both" else (layout,)


def show(*lines: str) -> None:
    """Displays lines of Markdown."""
    display(Markdown("\n".join(lines)))


def show_table(frame: pd.DataFrame) -> None:
    """Displays a table, without its index."""
    show(sheets.markdown(frame))


def save(frame: pd.DataFrame, output: str, name: str) -> None:
    """Writes the numbers to <output>/<name>.csv, unless output is ""."""
    if output:
        folder = Path(output)
        folder.mkdir(parents=True, exist_ok=True)
        frame.to_csv(folder / f"{name}.csv", index=False, float_format="%.6g", lineterminator="\n")


def _first_table(device: str, source: str) -> Path:
    names = [f"{folder}/{device or '*'}/{source}.csv" for folder in ("results", "measurements")]
    found = [path for name in names for path in sorted(ROOT.glob(name))]
    if not found:
        raise FileNotFoundError(
            f"there is no {' or '.join(names)} in {ROOT}; measure first (make figures), or give the parameter table"
        )
    return found[0]


def _only(frame: pd.DataFrame, column: str, value: str, path: Path) -> pd.DataFrame:
    rows = frame[frame[column] == value]
    if rows.empty:
        known: Iterable[str] = frame[column].unique()
        raise ValueError(f"{path} has no measurement with {column} {value!r}; it has {', '.join(known) or 'none'}")
    return rows
