"""The rows of many records in one table; what the studies' records have in common on their way there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksmm.measure.records import RecordError, read_record
from ksmm.measure.rejected import set_aside
from ksmm.table_file import Format, frame_of

if TYPE_CHECKING:
    import pandas

logger = logging.getLogger(__name__)

Row = dict[str, Any]


def collect(
    record_paths: Iterable[Path],
    rejected: Path,
    rows_of: Callable[[dict[str, Any]], list[Row]],
    form: Format,
    device: str | None = None,
    used: Callable[[dict[str, Any]], None] | None = None,
    imported: Iterable[Path] = (),
    *,
    read: Callable[[Path, str | None], dict[str, Any]] = read_record,
    order: Callable[[str, Any], Any] = lambda column, value: value,
) -> pandas.DataFrame:
    """The rows of all records that can be used, of two measurements of the same thing the later one.

    A record that cannot be used is set aside in `rejected`, with the reason beside it in <name>.reason.txt: moved there
    if that folder is beside the records' own, so that its job runs again, and copied otherwise (published records).

    Args:
        record_paths: the records, in any order.
        rejected: the folder for records that cannot be used; made when it is needed.
        rows_of: a record to its rows, with a value for each column, and started_at.
        form: of the table.
        device: slug of the device whose records these are; one of another device cannot be used. None allows any.
        used: called with each record that can be used.
        imported: more records, which others measured, on any device.
        read: reads a record that must be of a device; a RecordError says that it cannot be used.
        order: a column of the identity and its value to what the rows are sorted by.

    Returns:
        The columns of the format, rows sorted by those of its identity, in their order.

    Raises:
        OSError: a file cannot be read, or set aside.
    """
    rows: dict[tuple, Row] = {}
    devices = dict.fromkeys(record_paths, device) | dict.fromkeys(imported)
    for path in sorted(devices):
        try:
            record = read(path, devices[path])
        except RecordError as error:
            set_aside(path, rejected, str(error))
            continue
        if used is not None:
            used(record)
        for row in rows_of(record):
            _keep_latest(rows, row, tuple(order(name, row[name]) for name in form.identity), form)
    return frame_of([rows[key] for key in sorted(rows)], form)


def _keep_latest(rows: dict[tuple, Row], row: Row, key: tuple, form: Format) -> None:
    known = rows.get(key)
    if known is not None:
        named = " ".join(str(row[name]) for name in form.identity)
        later = max(known["started_at"], row["started_at"])
        logger.info("%s was measured more than once; the measurement of %s is kept", named, later)
    if known is None or row["started_at"] >= known["started_at"]:
        rows[key] = row
