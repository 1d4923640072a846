"""Reading this study's records: validated whenever they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ksmm.measure.records import disagreement_of, validated
from ksmm.networks.measurement import NetworkMeasurement

SCHEMA_PATH = Path(__file__).with_name("record.schema.json")


def read_record(path: Path, device: str | None = None) -> dict[str, Any]:
    """Reads and validates a record of forward passes, as ksmm.measure.records.validated does.

    Args:
        path: of the record.
        device: the slug of the device that it must be of; None allows any.

    Raises:
        RecordError: it cannot be used.
        OSError: it cannot be read.
    """
    return validated(path, SCHEMA_PATH, _disagreement, device)


def _disagreement(values: dict[str, Any]) -> str | None:
    """What a schema cannot say."""
    found = NetworkMeasurement.from_dict(values)
    if found.status != "ok":
        return None
    return disagreement_of(found.relative_error, found.tolerance, found.median_s, found.samples_s)
