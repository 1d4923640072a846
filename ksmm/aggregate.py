"""Records of times in, one table out (ksmm/table.py)."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksmm.collect import collect
from ksmm.measure.ceilings_file import Ceilings, read_ceilings
from ksmm.measure.measurement import Measurement
from ksmm.measure.samples import median
from ksmm.patterns import Pattern
from ksmm.table import COLUMNS, TIME
from ksmm.table_file import yes_or_no
from ksmm.work import Work

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

    Args:
        record_paths: the records, in any order.
        ceilings_path: what measure_ceilings wrote; None leaves roofline_s empty.
        rejected: the folder for records that cannot be used, see ksmm.collect.collect.
        device: see ksmm.collect.collect.
        used: see ksmm.collect.collect.

    Returns:
        The columns of COLUMNS, rows sorted by device, pattern, batch size, dtype, layout, implementation and part.

    Raises:
        RecordError: the ceilings cannot be used.
        OSError: a file cannot be read, or set aside.
    """
    ceilings = None if ceilings_path is None else read_ceilings(ceilings_path)
    return collect(record_paths, rejected, lambda record: _rows(record, ceilings), TIME, device, used)


def _rows(record: dict[str, Any], ceilings: Ceilings | None) -> list[dict[str, Any]]:
    shared = {
        "device": record["device"]["slug"],
        "device_name": record["device"]["name"],
        "kernel_hash": record["provenance"]["kernel_hash"],
    }
    if ceilings is not None and ceilings.device != shared["device"]:
        logger.warning("no roofline for record %s: the ceilings are of %s", record["job"], ceilings.device)
        ceilings = None
    return [_row(Measurement.from_dict(values), ceilings) | shared for values in record["measurements"]]


def _row(measurement: Measurement, ceilings: Ceilings | None) -> dict[str, Any]:
    pattern = Pattern(*measurement.pattern)
    work = Work(pattern, measurement.batch_size, measurement.dtype)
    graph_samples = measurement.cuda_graph_samples_s
    values = {name: value for name, value in dataclasses.asdict(measurement).items() if name in COLUMNS}
    return values | {
        "pattern": str(pattern),
        **dict(zip("abcd", pattern, strict=True)),
        "samples": len(measurement.samples_s),
        "protocol_met": yes_or_no(measurement.protocol_met),
        "cuda_graph_median_s": median(graph_samples) if graph_samples else None,
        "bytes_moved": work.bytes_moved,
        "operations": work.operations,
        "roofline_s": None if ceilings is None else ceilings.attainable_seconds(work),
    }
