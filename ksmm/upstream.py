"""Imports what the authors of the paper measured: their CSV files become records like ours.

Two kinds of file are known (https://github.com/PascalCarrivain/ksmm): energies, whose column `median` holds the
millijoules of `nruns` runs, and times, whose column `median` holds the seconds of one run. Their `monarch` is bmm. What
such a file does not say (the error against float64, power at rest, …) is null in the records.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksmm.measure import timer
from ksmm.measure.check import tolerance
from ksmm.measure.energy_counter import NVML_UNIT_J
from ksmm.measure.files import prepare_folder
from ksmm.measure.measurement import Measurement, utc_now
from ksmm.measure.records import write_record
from ksmm.patterns import Pattern
from ksmm.problem import parse_dtype
from ksmm.version import __version__

if TYPE_CHECKING:
    import pandas

logger = logging.getLogger(__name__)

PATTERNS_PER_RECORD = 64
RUNS_IN_PAPER = 16
"""Appendix B.1: at least so many runs a measurement of energy."""

_COMMON = ("batch-size", "algo", "bs_position", "precision", "device_name", "median")
_COLUMNS = {"energy": (*_COMMON, "nruns"), "time": (*_COMMON, "iqr", "times")}
_LAYOUTS = {"bs_first": "batch_first", "bs_last": "batch_last"}
_DTYPES = {"fp32": "float32", "fp16": "float16"}
_RENAMED = {"monarch": "bmm"}


class UpstreamError(ValueError):
    """A file that is none of the authors'; the message names the line, the column and what is allowed."""


@dataclass(frozen=True)
class Imported:
    """What was imported of one device.

    Attributes:
        device: its slug.
        study: "energy" or "time".
        folder: where the records are.
        records, patterns, measurements: how many.
    """

    device: str
    study: str
    folder: Path
    records: int
    patterns: int
    measurements: int


def import_upstream(file: Path, output: Path) -> list[Imported]:
    """Writes the records of a file to <output>/<device>/<study>/records.

    Args:
        file: CSV of the authors.
        output: a folder; records that were imported before under the same names are replaced, no others.

    Returns:
        One entry for each device in the file.

    Raises:
        UpstreamError: the file is none of theirs, or a row cannot be understood.
        UnwritableFolderError: nothing can be written there.
        OSError: the file cannot be read.
    """
    import pandas  # needed for tables, not to import ksmm

    content = file.read_bytes()
    origin = {"file": file.name, "sha256": hashlib.sha256(content).hexdigest()}
    try:
        frame = pandas.read_csv(file, dtype=str, keep_default_na=False)
    except (ValueError, pandas.errors.ParserError) as error:
        raise UpstreamError(f"{file} is no CSV file ({error})") from None
    study = _study(file, list(frame.columns))
    rows = list(_rows(file, frame, study))
    imported = []
    for name in dict.fromkeys(name for name, _ in rows):
        measurements = [measurement for device, measurement in rows if device == name]
        imported.append(_write(output, study, name, origin, measurements))
    return imported


def device_slug(name: str) -> str:
    """Vendor and model of a device's name: "tesla-v100" for "Tesla_V100-PCIE-16GB"."""
    return "-".join(re.split(r"[^a-z0-9]+", name.lower())[:2])


def _study(file: Path, columns: list[str]) -> str:
    for study, needed in _COLUMNS.items():
        if set(needed) <= set(columns) and {"pattern", "patterns"} & set(columns):
            return study
    wanted = "; or ".join(f"for {study} pattern, {', '.join(needed)}" for study, needed in _COLUMNS.items())
    raise UpstreamError(f"{file} has the columns {', '.join(columns) or 'none'}; the authors' files have {wanted}")


def _rows(file: Path, frame: pandas.DataFrame, study: str) -> Iterator[tuple[str, Measurement]]:
    imported_at = utc_now()
    for line, row in enumerate(frame.to_dict("records"), start=2):
        try:
            measured = _energy(row) if study == "energy" else _time(row)
            yield row["device_name"], Measurement(**_problem(row), **measured, started_at=imported_at)
        except ValueError as error:
            raise UpstreamError(f"{file}, line {line}: {error}") from None


def _problem(row: dict[str, str]) -> dict[str, Any]:
    text = row.get("pattern") or row.get("patterns") or ""
    entries = re.findall(r"-?\d+", text)
    if len(entries) != 4:
        raise ValueError(f"column pattern is {text!r}; a single factor, four integers, can be imported")
    pattern = Pattern(*map(int, entries))
    dtype = _known(row, "precision", _DTYPES)
    return {
        "pattern": tuple(pattern),
        "batch_size": int(_number(row, "batch-size")),
        "dtype": dtype,
        "layout": _known(row, "bs_position", _LAYOUTS),
        "implementation": _RENAMED.get(row["algo"], row["algo"]),
        "part": "whole",
        "tolerance": tolerance(parse_dtype(dtype), pattern.c),
    }


def _energy(row: dict[str, str]) -> dict[str, Any]:
    runs = _number(row, "nruns")
    if runs < 1:
        raise ValueError(f"column nruns is {row['nruns']}; it must be at least 1")
    energy_j = _number(row, "median") * NVML_UNIT_J / runs
    if energy_j <= 0:
        return {"status": "failed", "reason": f"the counter reads {row['median']} mJ for {runs:g} runs"}
    samples = tuple(entry * NVML_UNIT_J / runs for entry in _list(row.get("ecs", "")) if entry > 0)
    energy = {
        "counter": "NVML, through pyJoules",
        "counter_period_s": None,
        "samples_j": samples,
        "runs": (runs,) * max(1, len(samples)),
        "energy_j": energy_j,
        "iqr_j": timer.interquartile_range(samples) if samples else None,
        "above_idle_j": None,
        "power_w": None,
        "idle_before_w": None,
        "idle_after_w": None,
        "quantisation": None,
    }
    return {"status": "ok", "runs_per_sample": int(runs), "protocol_met": runs >= RUNS_IN_PAPER, "energy": energy}


def _time(row: dict[str, str]) -> dict[str, Any]:
    median_s, iqr_s = _number(row, "median"), _number(row, "iqr")
    samples = _list(row["times"])
    if median_s <= 0 or any(sample <= 0 for sample in samples):
        return {"status": "failed", "reason": f"the median is {row['median']} s"}
    return {"status": "ok", "samples_s": samples, "runs_per_sample": 1, "median_s": median_s, "iqr_s": iqr_s}


def _known(row: dict[str, str], column: str, known: dict[str, str]) -> str:
    if row[column] not in known:
        raise ValueError(f"column {column} is {row[column]!r}; it must be one of {', '.join(known)}")
    return known[row[column]]


def _number(row: dict[str, str], column: str) -> float:
    try:
        number = float(row[column])
    except ValueError:
        number = float("nan")
    if not -float("inf") < number < float("inf"):
        raise ValueError(f"column {column} is {row[column]!r}, which is no number")
    return number


def _list(text: str) -> tuple[float, ...]:
    """The numbers of "[0.1, 0.2]"; none for an empty cell."""
    return tuple(float(entry) for entry in text.strip().strip("[]").split(",") if entry.strip())


def _write(
    output: Path, study: str, name: str, origin: dict[str, str], measurements: Sequence[Measurement]
) -> Imported:
    slug = device_slug(name)
    folder = output / slug / study / "records"
    prepare_folder(folder)
    by_pattern: dict[tuple[int, ...], list[Measurement]] = {}
    for measurement in measurements:
        by_pattern.setdefault(measurement.pattern, []).append(measurement)
    groups = list(_groups(list(by_pattern.values())))
    for members in groups:
        first, last = (Pattern(*members[i].pattern).slug for i in (0, -1))
        job = f"imported-{first}-to-{last}"
        write_record(folder / f"{job}.json", _content(job, slug, name, origin, members))
    return Imported(slug, study, folder, len(groups), len(by_pattern), len(measurements))


def _groups(patterns: list[list[Measurement]]) -> Iterable[list[Measurement]]:
    for start in range(0, len(patterns), PATTERNS_PER_RECORD):
        yield [m for members in patterns[start : start + PATTERNS_PER_RECORD] for m in members]


def _content(
    job: str, slug: str, name: str, origin: dict[str, str], measurements: Sequence[Measurement]
) -> dict[str, Any]:
    return {
        "job": job,
        "device": {"slug": slug, "name": name.replace("_", " "), "type": "cpu" if "cpu" in name.lower() else "cuda"},
        "protocol": {},
        "provenance": {
            "started_at": measurements[0].started_at,
            "duration_s": 0.0,
            "software": {
                "versions": {"ksmm": __version__, "python": "unknown", "torch": "unknown"},
                "cuda": None,
                "git": None,
                "kernel": None,
            },
            "host": {"id_hash": "unknown", "load_average": []},
            "kernel_hash": "",
            "device_before": {},
            "device_after": {},
            "imported": origin,
        },
        "measurements": [measurement.to_dict() for measurement in measurements],
    }
