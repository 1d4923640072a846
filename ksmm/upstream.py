"""Imports what the authors of the paper measured: their CSV files become records like ours.

Two kinds of file are known (https://github.com/PascalCarrivain/ksmm): energies, whose column `median` holds the
millijoules of `nruns` runs, and times, whose column `median` holds the seconds of one run. Their `monarch` is bmm. What
such a file does not say (the error against float64, power at rest, …) is null in the records.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ksmm.measure.files import prepare_folder
from ksmm.measure.measurement import Measurement
from ksmm.measure.records import RecordError, load_json, write_record
from ksmm.patterns import Pattern
from ksmm.upstream_rows import UpstreamError, measurements_of, study_of
from ksmm.version import __version__

logger = logging.getLogger(__name__)

PATTERNS_PER_RECORD = 64


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

    A device goes by vendor and model ("tesla-v100"), and by its whole name where two go by the same.

    Args:
        file: CSV of the authors.
        output: a folder; records that were imported of the same file before are replaced, no others. A file that was
            mended is another one: remove the records of the one before, whose names have the first eight digits of its
            SHA-256.

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
    study = study_of(file, list(frame.columns))
    rows = list(measurements_of(file, frame, study))
    of_devices: dict[str, list[Measurement]] = {}
    names: dict[str, str] = {}
    for name, measurement in rows:
        device = whole_slug(name)  # which two spellings of one name have in common
        of_devices.setdefault(device, []).append(measurement)
        names.setdefault(device, name.replace("_", " "))
    slugs = {device: _free_slug(device, names, output) for device in names}
    return [
        _write(output, study, slugs[device], names[device], origin, measurements)
        for device, measurements in of_devices.items()
    ]


def whole_slug(name: str) -> str:
    """All words of a device's name: "tesla-v100-pcie-16gb" for "Tesla_V100-PCIE-16GB"."""
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))


def device_slug(name: str) -> str:
    """Vendor and model of a device's name: "tesla-v100" for "Tesla_V100-PCIE-16GB"."""
    return "-".join(whole_slug(name).split("-")[:2])


def _free_slug(device: str, others: Iterable[str], output: Path) -> str:
    """Vendor and model, unless another device of the file, or one imported before, goes by them; then the whole name.

    Args:
        device: its whole slug.
        others: those of all devices of the file.
        output: where devices were imported to.
    """
    slug = device_slug(device)
    known = {*others, *_devices_in(output / slug)}
    return device if any(device_slug(other) == slug for other in known - {device}) else slug


def _devices_in(folder: Path) -> Iterable[str]:
    """The whole slugs of the devices that records in a device's folder were imported of."""
    for path in folder.glob("*/records/imported-*.json"):
        with contextlib.suppress(RecordError, KeyError, TypeError, AttributeError):
            yield whole_slug(load_json(path)["device"]["name"])


def _write(
    output: Path, study: str, slug: str, name: str, origin: dict[str, str], measurements: Sequence[Measurement]
) -> Imported:
    folder = output / slug / study / "records"
    prepare_folder(folder)
    by_pattern: dict[tuple[int, ...], list[Measurement]] = {}
    for measurement in measurements:
        by_pattern.setdefault(measurement.pattern, []).append(measurement)
    groups = list(_groups(list(by_pattern.values())))
    for members in groups:
        first, last = (Pattern(*members[i].pattern).slug for i in (0, -1))
        job = f"imported-{origin['sha256'][:8]}-{first}-to-{last}"  # another file may have the same patterns
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
        "device": {"slug": slug, "name": name, "type": "cpu" if "cpu" in name.lower() else "cuda"},
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
