"""The table of this study, networks.csv: one row per measurement. Its figures and notebook read nothing else."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksmm.measure.files import write_atomically
from ksmm.measure.measurement import STATUSES
from ksmm.measure.records import RecordError
from ksmm.networks.accuracy import CLASSES
from ksmm.networks.entry import MODES, PARTS
from ksmm.networks.records import read_record
from ksmm.problem import dtype_name
from ksmm.table import TableError, cell_error, parsed, set_aside, typed

if TYPE_CHECKING:
    import pandas

logger = logging.getLogger(__name__)

COLUMNS = {
    "device": "text",
    "network": "text",
    "part": "text",
    "chains": "text",
    "implementation": "text",
    "accuracy_class": "text",
    "dtype": "text",
    "mode": "text",
    "batch_size": "integer",
    "tokens": "integer",
    "cached_tokens": "integer",
    "status": "text",
    "reason": "text",
    "median_s": "number",
    "iqr_s": "number",
    "samples": "integer",
    "runs_per_sample": "integer",
    "relative_error": "number",
    "tolerance": "number",
    "parameters": "number",
    "operations_per_row": "number",
    "started_at": "text",
    "device_name": "text",
    "kernel_hash": "text",
    "torch": "text",
    "transformers": "text",
}
"""Name and kind of each column, in order. An empty cell of a number or text is "not available"."""

_ALLOWED = {"part": PARTS, "accuracy_class": tuple(CLASSES), "mode": MODES, "status": STATUSES}
_IDENTITY = tuple(COLUMNS)[:6] + tuple(COLUMNS)[7:11]
_ORDERS = {"part": PARTS, "accuracy_class": tuple(CLASSES), "mode": MODES}


def aggregate(record_paths: Iterable[Path], rejected: Path) -> pandas.DataFrame:
    """Puts the measurements of all records into one table; of two of the same thing the later one is kept.

    Args:
        record_paths: the records, in any order; none give an empty table.
        rejected: the folder for records that cannot be used, as in ksmm.table.aggregate.

    Returns:
        The columns of COLUMNS, sorted by device, network, part, chains, implementation, class, mode and shape.

    Raises:
        OSError: a file cannot be read, or set aside.
    """
    rows: dict[tuple, dict[str, Any]] = {}
    for path in sorted(record_paths):
        try:
            record = read_record(path)
        except RecordError as error:
            set_aside(path, rejected, str(error))
            continue
        for row in rows_of(record):
            key = tuple(_ORDERS[name].index(row[name]) if name in _ORDERS else row[name] for name in _IDENTITY)
            if key not in rows or row["started_at"] >= rows[key]["started_at"]:
                rows[key] = row
    return frame([rows[key] for key in sorted(rows)])


def rows_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of one record, with the columns of COLUMNS."""
    versions = record["provenance"]["software"]["versions"]
    shared = {
        "device": record["device"]["slug"],
        "device_name": record["device"]["name"],
        "kernel_hash": record["provenance"]["kernel_hash"],
        "torch": versions["torch"],
        "transformers": versions.get("transformers", ""),
    }
    return [
        {name: value for name, value in values.items() if name in COLUMNS}
        | {"dtype": dtype_name(CLASSES[values["accuracy_class"]]), "samples": len(values["samples_s"])}
        | shared
        for values in record["measurements"]
    ]


def frame(rows: list[dict[str, Any]]) -> pandas.DataFrame:
    """Rows as a table with the columns of COLUMNS."""
    import pandas  # needed for tables, not to import ksmm

    columns = {name: pandas.Series([row[name] for row in rows], dtype="object") for name in COLUMNS}
    return pandas.DataFrame({name: typed(values, COLUMNS[name]) for name, values in columns.items()})


def write_table(table: pandas.DataFrame, path: Path) -> None:
    """Writes the table as CSV, whole or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    text = io.StringIO()
    table[list(COLUMNS)].to_csv(text, index=False, float_format="%.9g", lineterminator="\n")
    write_atomically(path, text.getvalue())


def read_table(path: Path) -> pandas.DataFrame:
    """Reads a table and validates it; types as in ksmm.table.read_table.

    Raises:
        TableError: it cannot be used; the message names the column.
        OSError: it cannot be read.
    """
    import pandas  # needed for tables, not to import ksmm

    try:
        raw = pandas.read_csv(path, dtype=str, keep_default_na=False)
    except (ValueError, pandas.errors.EmptyDataError) as error:
        raise TableError(f"table {path} is not CSV ({error}); aggregate the records again") from None
    odd = [name for name in COLUMNS if name not in raw] or [name for name in raw if name not in COLUMNS]
    if odd:
        what = "has no column" if odd[0] in COLUMNS else "has an unknown column"
        raise TableError(f"table {path} {what} {odd[0]}; this is read from networks.csv: aggregate the records again")
    table = pandas.DataFrame({name: parsed(raw[name], name, kind, path) for name, kind in COLUMNS.items()})
    for name, allowed in _ALLOWED.items():
        bad = table.loc[~table[name].isin(allowed), name]
        if not bad.empty:
            raise cell_error(path, name, bad.index[0], bad.iloc[0], f"and not one of {', '.join(allowed)}")
    timed = table["median_s"] > 0
    bad = table.loc[timed != (table["status"] == "ok"), "median_s"]
    if not bad.empty:
        raise cell_error(path, "median_s", bad.index[0], bad.iloc[0], "which does not fit its status")
    return table
