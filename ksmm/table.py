"""The table: records in, one row per measurement out. Figures, tables and notebooks read nothing else."""

from __future__ import annotations

import dataclasses
import io
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksmm.measure import timer
from ksmm.measure.ceilings import Ceilings, read_ceilings
from ksmm.measure.files import write_atomically
from ksmm.measure.measurement import PARTS, STATUSES, Measurement
from ksmm.measure.records import RecordError
from ksmm.measure.rejected import read_record_of, set_aside
from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, LAYOUTS, Problem, parse_dtype

if TYPE_CHECKING:
    import pandas

logger = logging.getLogger(__name__)

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
"""Name and kind of each column, in order. An empty cell of a number or text is "not available"."""

_ALLOWED = {"dtype": tuple(DTYPES), "layout": LAYOUTS, "part": PARTS, "status": STATUSES}
_IDENTITY = ("device", "a", "b", "c", "d", "batch_size", "dtype", "layout", "implementation", "part")


class TableError(ValueError):
    """A table that cannot be used; the message names the file, the column and the way out."""


def aggregate(
    record_paths: Iterable[Path], ceilings_path: Path | None, rejected: Path, device: str | None = None
) -> pandas.DataFrame:
    """Puts the measurements of all records into one table.

    A record that cannot be used is set aside in `rejected`, with the reason beside it in <name>.reason.txt: moved there
    if that folder is beside the records' own, so that its job runs again, and copied otherwise (published records).
    Of two measurements of the same thing the later one is kept.

    Args:
        record_paths: the records, in any order.
        ceilings_path: what measure_ceilings wrote; None leaves roofline_s empty.
        rejected: the folder for records that cannot be used; made when it is needed.
        device: slug of the device whose records these are; one of another device cannot be used. None allows any.

    Returns:
        The columns of COLUMNS, rows sorted by device, pattern, batch size, dtype, layout, implementation and part.

    Raises:
        RecordError: the ceilings cannot be used.
        OSError: a file cannot be read, or set aside.
    """
    ceilings = None if ceilings_path is None else read_ceilings(ceilings_path)
    rows: dict[tuple, dict[str, Any]] = {}
    for path in sorted(record_paths):
        try:
            record = read_record_of(path, device)
        except RecordError as error:
            set_aside(path, rejected, str(error))
            continue
        for row in _rows(record, ceilings):
            _keep_latest(rows, row)
    return _frame([rows[key] for key in sorted(rows)])


def _rows(record: dict[str, Any], ceilings: Ceilings | None) -> list[dict[str, Any]]:
    shared = {
        "device": record["device"]["slug"],
        "device_name": record["device"]["name"],
        "kernel_hash": record["provenance"]["kernel_hash"],
    }
    if ceilings is not None and ceilings.device != shared["device"]:
        logger.warning("no roofline for record %s: the ceilings are of %s", record["job"], ceilings.device)
        ceilings = None
    device_type = record["device"]["type"]
    return [_row(Measurement.from_dict(values), device_type, ceilings) | shared for values in record["measurements"]]


def _row(measurement: Measurement, device_type: str, ceilings: Ceilings | None) -> dict[str, Any]:
    pattern = Pattern(*measurement.pattern)
    dtype = parse_dtype(measurement.dtype)
    problem = Problem(pattern, measurement.batch_size, dtype, measurement.layout, device_type)
    graph_samples = measurement.cuda_graph_samples_s
    values = {name: value for name, value in dataclasses.asdict(measurement).items() if name in COLUMNS}
    return values | {
        "pattern": str(pattern),
        **dict(zip("abcd", pattern, strict=True)),
        "samples": len(measurement.samples_s),
        "cuda_graph_median_s": timer.median(graph_samples) if graph_samples else None,
        "bytes_moved": problem.bytes_moved,
        "operations": problem.operations,
        "roofline_s": None if ceilings is None else ceilings.attainable_seconds(problem),
    }


def _keep_latest(rows: dict[tuple, dict[str, Any]], row: dict[str, Any]) -> None:
    key = tuple(row[name] for name in _IDENTITY)
    known = rows.get(key)
    if known is not None:
        named = f"{row['pattern']} {row['dtype']} {row['layout']} {row['implementation']} ({row['part']})"
        later = max(known["started_at"], row["started_at"])
        logger.info("%s was measured more than once; the measurement of %s is kept", named, later)
    if known is None or row["started_at"] >= known["started_at"]:
        rows[key] = row


def _frame(rows: list[dict[str, Any]]) -> pandas.DataFrame:
    import pandas  # needed for tables, not to import ksmm

    columns = {name: [row[name] for row in rows] for name in COLUMNS}
    return pandas.DataFrame({name: _typed(pandas.Series(values), COLUMNS[name]) for name, values in columns.items()})


def _typed(values: pandas.Series, kind: str) -> pandas.Series:
    """Text has "" where there is none, numbers NaN; integers are never missing."""
    if kind == "text":
        return values.astype("object").fillna("").astype(str)
    return values.astype("int64" if kind == "integer" else "float64")


def write_table(frame: pandas.DataFrame, path: Path) -> None:
    """Writes the table as CSV, whole or not at all.

    Raises:
        TableError: its columns are not those of COLUMNS.
        OSError: the file cannot be written.
    """
    _check_columns(list(frame.columns), path)
    text = io.StringIO()
    frame.to_csv(text, index=False, float_format="%.9g", lineterminator="\n")
    write_atomically(path, text.getvalue())


def read_table(path: Path) -> pandas.DataFrame:
    """Reads a table and validates it.

    Returns:
        The columns of COLUMNS: text as str ("" where empty), numbers as float64 (NaN where empty), integers as int64.

    Raises:
        TableError: it cannot be used; the message names the column.
        OSError: it cannot be read.
    """
    import pandas  # needed for tables, not to import ksmm

    try:
        raw = pandas.read_csv(path, dtype=str, keep_default_na=False)
    except (ValueError, pandas.errors.EmptyDataError) as error:
        raise TableError(f"table {path} is not CSV ({error}); aggregate the records again") from None
    _check_columns(list(raw.columns), path)
    frame = pandas.DataFrame({name: _parsed(raw[name], name, kind, path) for name, kind in COLUMNS.items()})
    _check_values(frame, path)
    return frame


def _check_columns(columns: list[str], path: Path) -> None:
    missing = [name for name in COLUMNS if name not in columns]
    unknown = [name for name in columns if name not in COLUMNS]
    if missing:
        raise TableError(f"table {path} has no column {missing[0]}; aggregate the records again")
    if unknown:
        raise TableError(f"table {path} has a column {unknown[0]} that is not known; aggregate the records again")


def _parsed(values: pandas.Series, name: str, kind: str, path: Path) -> pandas.Series:
    import pandas

    if kind == "text":
        return values.astype(str)
    numbers = pandas.to_numeric(values.where(values != "", None), errors="coerce").astype("float64")
    bad = values[numbers.isna() & ((values != "") | (kind == "integer"))]
    if kind == "integer" and bad.empty:
        bad = values[~values.str.fullmatch(r"-?\d+")]
    if not bad.empty:
        raise _cell_error(path, name, bad.index[0], bad.iloc[0], f"which is no {kind}")
    return values.astype("int64") if kind == "integer" else numbers


def _check_values(frame: pandas.DataFrame, path: Path) -> None:
    for name, allowed in _ALLOWED.items():
        bad = frame.loc[~frame[name].isin(allowed), name]
        if not bad.empty:
            raise _cell_error(path, name, bad.index[0], bad.iloc[0], f"and not one of {', '.join(allowed)}")
    ok = frame["status"] == "ok"
    untimed = frame.loc[ok & ~(frame["median_s"] > 0), "median_s"]
    if not untimed.empty:
        raise _cell_error(path, "median_s", untimed.index[0], untimed.iloc[0], "with status ok")
    timed = frame.loc[~ok & frame["median_s"].notna(), "median_s"]
    if not timed.empty:
        raise _cell_error(path, "median_s", timed.index[0], timed.iloc[0], "though its status is not ok")


def _cell_error(path: Path, column: str, index: int, value: object, what: str) -> TableError:
    row = index + 2  # the first line is the header
    shown = repr(value) if isinstance(value, str) else f"{value:g}"
    return TableError(f"table {path}, line {row}: column {column} is {shown}, {what}; aggregate the records again")
