"""The table of energies: one row per measurement (ksmm/energy_aggregate.py)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ksmm.table_file import Format, read_csv, write_csv

if TYPE_CHECKING:
    import pandas

ENERGY_COLUMNS = {
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
    "energy_j": "number",
    "mean_energy_j": "number",
    "iqr_j": "number",
    "above_idle_j": "number",
    "power_w": "number",
    "idle_before_w": "number",
    "idle_after_w": "number",
    "median_s": "number",
    "samples": "integer",
    "runs_per_sample": "integer",
    "quantisation": "number",
    "protocol_met": "text",
    "relative_error": "number",
    "tolerance": "number",
    "bytes_moved": "integer",
    "operations": "integer",
    "roofline_s": "number",
    "roofline_j": "number",
    "started_at": "text",
    "device_name": "text",
    "kernel_hash": "text",
    "source": "text",
}
"""Name and kind of each column, in order; protocol_met is yes, no or empty, source is measured or imported.

energy_j is the median over the windows, mean_energy_j the joules of all windows over their products.
"""

ENERGY = Format(
    ENERGY_COLUMNS,
    ("device", "a", "b", "c", "d", "batch_size", "dtype", "layout", "implementation", "part"),
    "energy_j",
    added=("mean_energy_j",),
)
"""The table of the energy study."""


def read_energy_table(path: Path) -> pandas.DataFrame:
    """Reads a table of energies and validates it; see ksmm.table_file.read_csv.

    Raises:
        TableError: it cannot be used; the message names the column.
        OSError: it cannot be read.
    """
    return read_csv(path, ENERGY)


def write_energy_table(frame: pandas.DataFrame, path: Path) -> None:
    """Writes a table of energies as CSV, whole or not at all; see ksmm.table_file.write_csv.

    Raises:
        TableError: its columns are not those of ENERGY_COLUMNS.
        OSError: the file cannot be written.
    """
    write_csv(frame, path, ENERGY)
