"""Tables as CSV files with known columns: written whole, validated when they are read."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksmm.measure.files import write_atomically
from ksmm.measure.measurement import PARTS, STATUSES
from ksmm.measure.records import fits_a_table
from ksmm.names import DTYPE_NAMES, LAYOUTS

if TYPE_CHECKING:
    import pandas

_ALLOWED = {"dtype": DTYPE_NAMES, "layout": LAYOUTS, "part": PARTS, "status": STATUSES}
"""What text may be, in tables of products."""


class TableError(ValueError):
    """A table that cannot be used; the message names the file, the column and the way out."""


@dataclass(frozen=True)
class Format:
    """What a table looks like.

    Attributes:
        kinds: name and kind ("text", "integer", "number") of each column, in order.
        identity: the columns of which no two rows have the same values.
        result: the column that rows of status ok have a positive number in, and no other row.
        allowed: columns of text to what they may be.
        added: columns of text or numbers that tables of before do not have; where one has none, its cells are empty.
    """

    kinds: Mapping[str, str]
    identity: tuple[str, ...]
    result: str
    allowed: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _ALLOWED)
    added: tuple[str, ...] = ()


def frame_of(rows: list[dict[str, Any]], form: Format) -> pandas.DataFrame:
    """Rows, each with a value for every column of the format, as a table."""
    import pandas  # needed for tables, not to import ksmm

    columns = {name: [row[name] for row in rows] for name in form.kinds}
    series = {name: pandas.Series(values, dtype="object") for name, values in columns.items()}
    return pandas.DataFrame({name: _typed(values, form.kinds[name]) for name, values in series.items()})


def _typed(values: pandas.Series, kind: str) -> pandas.Series:
    """Text has "" where there is none, numbers NaN; integers are never missing."""
    if kind == "text":
        return values.astype("object").fillna("").astype(str)
    return values.astype("int64" if kind == "integer" else "float64")


def yes_or_no(value: bool | None) -> str:
    """A truth value as a cell of text, empty where there is none."""
    return {True: "yes", False: "no", None: ""}[value]


def write_csv(frame: pandas.DataFrame, path: Path, form: Format) -> None:
    """Writes the table as CSV, whole or not at all.

    Raises:
        TableError: its columns are not those of its format.
        OSError: the file cannot be written.
    """
    _check_columns(list(frame.columns), path, form)
    text = io.StringIO()
    frame.to_csv(text, index=False, float_format="%.9g", lineterminator="\n")
    write_atomically(path, text.getvalue())


def read_csv(path: Path, form: Format) -> pandas.DataFrame:
    """Reads a table and validates it.

    Returns:
        Its columns: text as str ("" where empty), numbers as float64 (NaN where empty), integers as int64.

    Raises:
        TableError: it cannot be used; the message names the column.
        OSError: it cannot be read.
    """
    import pandas  # needed for tables, not to import ksmm

    try:
        raw = pandas.read_csv(path, dtype=str, keep_default_na=False)
    except (ValueError, pandas.errors.EmptyDataError) as error:
        raise TableError(f"table {path} is not CSV ({error}); aggregate the records again") from None
    raw = raw.assign(**{name: "" for name in form.added if name not in raw})
    _check_columns(list(raw.columns), path, form)
    frame = pandas.DataFrame({name: _parsed(raw[name], name, kind, path) for name, kind in form.kinds.items()})
    _check_values(frame, path, form)
    return frame


def _check_columns(columns: list[str], path: Path, form: Format) -> None:
    missing = [name for name in form.kinds if name not in columns]
    unknown = [name for name in columns if name not in form.kinds]
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
    what = f"which is no {kind}"
    if kind == "integer" and bad.empty:
        bad = values[~values.str.fullmatch(r"-?\d+")]
    if kind == "integer" and bad.empty:
        bad, what = values[~values.map(lambda value: fits_a_table(int(value)))], "which does not fit into 64 bits"
    if not bad.empty:
        raise _cell_error(path, name, bad.index[0], bad.iloc[0], what)
    return values.astype("int64") if kind == "integer" else numbers


def _check_values(frame: pandas.DataFrame, path: Path, form: Format) -> None:
    result = form.result
    for name, allowed in form.allowed.items():
        bad = frame.loc[~frame[name].isin(allowed), name]
        if not bad.empty:
            raise _cell_error(path, name, bad.index[0], bad.iloc[0], f"and not one of {', '.join(allowed)}")
    ok = frame["status"] == "ok"
    lacking = frame.loc[ok & ~(frame[result] > 0), result]
    if not lacking.empty:
        raise _cell_error(path, result, lacking.index[0], lacking.iloc[0], "with status ok")
    stray = frame.loc[~ok & frame[result].notna(), result]
    if not stray.empty:
        raise _cell_error(path, result, stray.index[0], stray.iloc[0], "though its status is not ok")
    again = frame.duplicated(list(form.identity))
    if again.any():
        what = f"a row before has the same {', '.join(form.identity)}"
        raise TableError(f"table {path}, line {again.idxmax() + 2}: {what}; aggregate the records again")


def _cell_error(path: Path, column: str, index: int, value: object, what: str) -> TableError:
    row = index + 2  # the first line is the header
    shown = repr(value) if isinstance(value, str) else f"{value:g}"
    return TableError(f"table {path}, line {row}: column {column} is {shown}, {what}; aggregate the records again")
