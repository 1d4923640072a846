"""Reading this study's records: validated whenever they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ksmm.measure.records import SCHEMA_VERSION, RecordError, checksum, load_json, schema_fault
from ksmm.networks.measurement import NetworkMeasurement

SCHEMA_PATH = Path(__file__).with_name("record.schema.json")


def read_record(path: Path, device: str | None = None) -> dict[str, Any]:
    """Reads and validates a record: JSON, schema (draft 2020-12), checksum, name, and that its numbers agree.

    Args:
        path: of the record.
        device: the slug of the device that it must be of; None allows any.

    Raises:
        RecordError: it cannot be used.
        OSError: it cannot be read.
    """
    content = load_json(path)
    fault = _fault(content, path.stem)
    if fault is not None:
        raise RecordError(f"record {path} {fault}; remove it and run its job again")
    slug = content["device"]["slug"]
    if device is not None and slug != device:
        raise RecordError(f"record {path} is of device {slug}, among those of {device}; put it among its own")
    return content


def _fault(content: dict[str, Any], job: str) -> str | None:
    version = content.get("schema_version")
    if version != SCHEMA_VERSION:
        return f"has schema_version {version!r}, and this ksmm reads {SCHEMA_VERSION}"
    fault = schema_fault(content, SCHEMA_PATH)
    if fault is not None:
        return fault
    if checksum(content) != content["checksum"]:
        return "was changed after it was written: key checksum does not fit the content"
    if content["job"] != job:
        return f"is the record of job {content['job']}, under another job's name"
    for number, values in enumerate(content["measurements"]):
        fault = _disagreement(NetworkMeasurement.from_dict(values))  # the schema has seen that it is one
        if fault is not None:
            return f"key measurements[{number}]: {fault}"
    return None


def _disagreement(measurement: NetworkMeasurement) -> str | None:
    """What a schema cannot say."""
    if measurement.status != "ok":
        return None
    if measurement.relative_error > measurement.tolerance:
        return f"status is ok, relative_error {measurement.relative_error} exceeds tolerance {measurement.tolerance}"
    low, high = min(measurement.samples_s), max(measurement.samples_s)
    if not low * (1 - 1e-5) <= measurement.median_s <= high * (1 + 1e-5):
        return f"median_s {measurement.median_s} lies outside of samples_s"
    return None
