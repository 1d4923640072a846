"""The table of times: one row per measurement (ksmm/aggregate.py). What is drawn from times reads nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ksmm.table_file import Format, TableError, read_csv, write_csv

if TYPE_CHECKING:
    import pandas

__all__ = ["COLUMNS", "TIME", "TableError", "read_table", "write_table"]

COLUMNS = {
    "device": "text",
    "pattern": "text",
    "a": "integer",
    "b": "integer",
    "c": "integer",
    "d": "integer",
    "batch_size": "integer",
    "dtype": "text",
    "layout": "text",
    "implementation": "text",
    "part": "text",
    "status": "text",
    "reason": "text",
    "median_s": "number",
    "iqr_s": "number",
    "samples": "integer",
    "runs_per_sample": "integer",
    "protocol_met": "text",
    "cuda_graph_median_s": "number",
    "relative_error": "number",
    "tolerance": "number",
    "bytes_moved": "integer",
    "operations": "integer",
    "roofline_s": "number",
    "started_at": "text",
    "device_name": "text",
    "kernel_hash": "text",
}
"""Name and kind of each column, in order. An empty cell of a number or text is "not available"; protocol_met is yes or
no."""


TIME = Format(
    COLUMNS,
    ("device", "a", "b", "c", "d", "batch_size", "dtype", "layout", "implementation", "part"),
    "median_s",
)
"""The table of the time study."""


def write_table(frame: pandas.DataFrame, path: Path) -> None:
    """Writes the table as CSV, whole or not at all.

    Raises:
        TableError: its columns are not those of COLUMNS.
        OSError: the file cannot be written.
    """
    write_csv(frame, path, TIME)


def read_table(path: Path) -> pandas.DataFrame:
    """Reads a table and validates it.

    Returns:
        The columns of COLUMNS: text as str ("" where empty), numbers as float64 (NaN where empty), integers as int64.

    Raises:
        TableError: it cannot be used; the message names the column.
        OSError: it cannot be read.
    """
    return read_csv(path, TIME)
