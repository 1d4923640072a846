"""Records of times in, one table out (ksmm/table.py); what other studies' records have in common with that."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksmm.measure import timer
from ksmm.measure.ceilings import Ceilings, read_ceilings
from ksmm.measure.measurement import Measurement
from ksmm.measure.records import RecordError
from ksmm.measure.rejected import read_record_of, set_aside
from ksmm.patterns import Pattern
from ksmm.problem import Problem, parse_dtype
from ksmm.table import COLUMNS, TIME
from ksmm.table_file import Format, frame_of, yes_or_no

if TYPE_CHECKING:
    import pandas

logger = logging.getLogger(__name__)


def aggregate(
    record_paths: Iterable[Path],
    ceilings_path: Path | None,
    rejected: Path,
    device: str | None = None,
    used: Callable[[dict[str, Any]], None] | None = None,
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
        used: called with each record that can be used.

    Returns:
        The columns of COLUMNS, rows sorted by device, pattern, batch size, dtype, layout, implementation and part.

    Raises:
        RecordError: the ceilings cannot be used.
        OSError: a file cannot be read, or set aside.
    """
    ceilings = None if ceilings_path is None else read_ceilings(ceilings_path)
    return collect(record_paths, rejected, lambda record: _rows(record, ceilings), TIME, device, used)


def collect(
    record_paths: Iterable[Path],
    rejected: Path,
    rows_of: Callable[[dict[str, Any]], list[dict[str, Any]]],
    form: Format,
    device: str | None = None,
    used: Callable[[dict[str, Any]], None] | None = None,
    imported: Iterable[Path] = (),
) -> pandas.DataFrame:
    """The rows of all records that can be used, sorted; see aggregate.

    Args:
        record_paths: see aggregate.
        rejected: see aggregate.
        rows_of: a record to its rows, with a value for each column.
        form: of the table.
        device: see aggregate.
        used: see aggregate.
        imported: more records, which others measured, on any device.

    Raises:
        OSError: a file cannot be read, or set aside.
    """
    rows: dict[tuple, dict[str, Any]] = {}
    devices = dict.fromkeys(record_paths, device) | dict.fromkeys(imported)
    for path in sorted(devices):
        try:
            record = read_record_of(path, devices[path])
        except RecordError as error:
            set_aside(path, rejected, str(error))
            continue
        if used is not None:
            used(record)
        for row in rows_of(record):
            _keep_latest(rows, row, form.identity)
    return frame_of([rows[key] for key in sorted(rows)], form)


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
        "protocol_met": yes_or_no(measurement.protocol_met),
        "cuda_graph_median_s": timer.median(graph_samples) if graph_samples else None,
        "bytes_moved": problem.bytes_moved,
        "operations": problem.operations,
        "roofline_s": None if ceilings is None else ceilings.attainable_seconds(problem),
    }


def _keep_latest(rows: dict[tuple, dict[str, Any]], row: dict[str, Any], identity: tuple[str, ...]) -> None:
    key = tuple(row[name] for name in identity)
    known = rows.get(key)
    if known is not None:
        named = f"{row['pattern']} {row['dtype']} {row['layout']} {row['implementation']} ({row['part']})"
        later = max(known["started_at"], row["started_at"])
        logger.info("%s was measured more than once; the measurement of %s is kept", named, later)
    if known is None or row["started_at"] >= known["started_at"]:
        rows[key] = row
