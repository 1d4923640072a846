"""The table of this study, networks.csv: one row per measurement. Its figures and notebook read nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksmm.collect import collect
from ksmm.measure.measurement import STATUSES
from ksmm.names import DTYPE_NAMES
from ksmm.networks.entry import CLASSES, MODES, PARTS
from ksmm.networks.records import read_record
from ksmm.table_file import Format, read_csv, write_csv, yes_or_no

if TYPE_CHECKING:
    import pandas

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
    "protocol_met": "text",
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
"""Name and kind of each column, in order. An empty cell of a number or text is "not available"; protocol_met is yes or
no where there is a time."""

_ORDERS = {"part": PARTS, "accuracy_class": tuple(CLASSES), "mode": MODES}

NETWORKS = Format(
    COLUMNS,
    (
        "device",
        "network",
        "part",
        "chains",
        "implementation",
        "accuracy_class",
        "mode",
        "batch_size",
        "tokens",
        "cached_tokens",
    ),
    "median_s",
    {**_ORDERS, "dtype": DTYPE_NAMES, "status": STATUSES},
)
"""The table of the study networks."""


def aggregate(
    record_paths: Iterable[Path],
    rejected: Path,
    device: str | None = None,
    used: Callable[[dict[str, Any]], None] | None = None,
) -> pandas.DataFrame:
    """Puts the measurements of all records into one table.

    Args:
        record_paths: the records, in any order; none give an empty table.
        rejected: see ksmm.collect.collect.
        device: see ksmm.collect.collect.
        used: see ksmm.collect.collect.

    Returns:
        The columns of COLUMNS, sorted by device, network, part, chains, implementation, class, mode and shape.

    Raises:
        OSError: a file cannot be read, or set aside.
    """

    def order(column: str, value: Any) -> Any:
        return _ORDERS[column].index(value) if column in _ORDERS else value

    return collect(record_paths, rejected, rows_of, NETWORKS, device, used, read=read_record, order=order)


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
        | {
            "dtype": CLASSES[values["accuracy_class"]],
            "samples": len(values["samples_s"]),
            "protocol_met": yes_or_no(values["protocol_met"]),
        }
        | shared
        for values in record["measurements"]
    ]


def write_networks_table(table: pandas.DataFrame, path: Path) -> None:
    """Writes the table as CSV, whole or not at all; see ksmm.table_file.write_csv.

    Raises:
        TableError: its columns are not those of COLUMNS.
        OSError: the file cannot be written.
    """
    write_csv(table, path, NETWORKS)


def read_networks_table(path: Path) -> pandas.DataFrame:
    """Reads the table and validates it; see ksmm.table_file.read_csv.

    Raises:
        TableError: it cannot be used; the message names the column.
        OSError: it cannot be read.
    """
    return read_csv(path, NETWORKS)
