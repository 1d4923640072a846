"""Records of energies in, one table out (ksmm/energy_table.py)."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksmm.collect import collect
from ksmm.energy_table import ENERGY, ENERGY_COLUMNS, read_energy_table
from ksmm.measure.ceilings_file import Ceilings, EnergyCeilings, read_ceilings, read_energy_ceilings
from ksmm.measure.measurement import Measurement
from ksmm.patterns import Pattern
from ksmm.table_file import yes_or_no
from ksmm.work import Work

if TYPE_CHECKING:
    import pandas

logger = logging.getLogger(__name__)

_FROM_ENERGY = ("energy_j", "iqr_j", "above_idle_j", "power_w", "idle_before_w", "idle_after_w", "quantisation")


def aggregate_energy(
    record_paths: Iterable[Path],
    ceilings_path: Path | None,
    energy_ceilings_path: Path | None,
    rejected: Path,
    device: str | None = None,
    used: Callable[[dict[str, Any]], None] | None = None,
    imported: Iterable[Path] = (),
    published_table: Path | None = None,
) -> pandas.DataFrame:
    """Puts the measurements of all energy records into one table; several devices may be among them.

    Args:
        record_paths: the records, in any order; measurements without an energy that are ok (a timing record) are an
            error of the caller's and left out with a warning.
        ceilings_path: what measure_ceilings wrote; None leaves roofline_s and roofline_j empty.
        energy_ceilings_path: what measure_energy_ceilings wrote; None leaves roofline_j empty.
        rejected: the folder for records that cannot be used, see ksmm.collect.collect.
        device: slug of the device that record_paths are of; one of another device cannot be used. None allows any.
        used: called with each record that can be used, of both kinds.
        imported: records that others measured, of any device.
        published_table: a table of energies whose imported rows are taken over, of devices that no record is of.

    Returns:
        The columns of ENERGY_COLUMNS, rows sorted by device, pattern, batch size, dtype, layout and implementation.

    Raises:
        RecordError: the ceilings cannot be used.
        TableError: the published table cannot be used.
        OSError: a file cannot be read, or set aside.
    """
    ceilings = None if ceilings_path is None else read_ceilings(ceilings_path)
    joules = None if energy_ceilings_path is None else read_energy_ceilings(energy_ceilings_path)
    frame = collect(
        record_paths, rejected, lambda record: _rows(record, ceilings, joules), ENERGY, device, used, imported
    )
    if published_table is None:
        return frame
    import pandas  # as in ksmm.table_file: needed to make tables, not to import ksmm

    published = read_energy_table(published_table)
    taken = published[(published["source"] == "imported") & ~published["device"].isin(frame["device"])]
    if taken.empty:
        return frame
    both = pandas.concat([frame, taken], ignore_index=True) if len(frame) else taken
    return both.sort_values(list(ENERGY.identity), kind="stable", ignore_index=True)


def _rows(record: dict[str, Any], ceilings: Ceilings | None, joules: EnergyCeilings | None) -> list[dict[str, Any]]:
    device = record["device"]
    shared = {
        "device": device["slug"],
        "device_name": device["name"],
        "kernel_hash": record["provenance"]["kernel_hash"],
        "source": "imported" if "imported" in record["provenance"] else "measured",
    }
    ceilings = ceilings if ceilings is not None and ceilings.device == device["slug"] else None
    joules = joules if joules is not None and joules.device == device["slug"] else None
    measurements = [Measurement.from_dict(values) for values in record["measurements"]]
    timings = [m for m in measurements if m.status == "ok" and m.energy is None]
    if timings:
        logger.warning("record %s: %d measurements have no energy; they are left out", record["job"], len(timings))
    return [_row(m, ceilings, joules) | shared for m in measurements if m not in timings]


def _row(measurement: Measurement, ceilings: Ceilings | None, joules: EnergyCeilings | None) -> dict[str, Any]:
    pattern = Pattern(*measurement.pattern)
    work = Work(pattern, measurement.batch_size, measurement.dtype)
    roofline_s = None if ceilings is None else ceilings.attainable_seconds(work)
    values = {name: value for name, value in dataclasses.asdict(measurement).items() if name in ENERGY_COLUMNS}
    energy = measurement.energy or {}
    return values | {
        "pattern": str(pattern),
        **dict(zip("abcd", pattern, strict=True)),
        **{name: energy.get(name) for name in _FROM_ENERGY},
        "mean_energy_j": _mean_energy_j(measurement),
        "samples": len(energy.get("samples_j", ())),
        "protocol_met": yes_or_no(measurement.protocol_met),
        "bytes_moved": work.bytes_moved,
        "operations": work.operations,
        "roofline_s": roofline_s,
        "roofline_j": None if joules is None or roofline_s is None else joules.attainable_joules(work, roofline_s),
    }


def _mean_energy_j(measurement: Measurement) -> float | None:
    """Joules of all windows over their products; None of the authors' energies, whose samples of zero are left out."""
    if measurement.energy is None or not measurement.samples_s:  # where windows have times there are as many of each
        return None
    joules, runs = measurement.energy["samples_j"], measurement.energy["runs"]
    return sum(sample * number for sample, number in zip(joules, runs, strict=True)) / sum(runs)
