"""What the files of both kinds of ceilings have in common: a version, a device, and a checksum."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ksmm.measure.files import write_atomically
from ksmm.measure.records import RecordError, checksum, dump


def write_ceilings(path: Path, content: dict[str, Any]) -> None:
    """Adds a checksum to ceilings and writes them.

    Raises:
        ValueError: a number is NaN or infinite.
        OSError: the file cannot be written.
    """
    write_atomically(path, dump({**content, "checksum": checksum(content)}, listed=""))


def checked_device(path: Path, content: dict[str, Any], device: str | None, version: int, way_out: str) -> str:
    """Checks what ceilings of both kinds have in common; those of earlier versions of ksmm have no checksum.

    Args:
        path: of the file.
        content: what it holds.
        device: the slug of the device that it must be of; None allows any.
        version: the schema version that it must have.
        way_out: for the messages.

    Returns:
        The slug of the device that they are of.

    Raises:
        RecordError: see read_ceilings.
    """
    if content.get("schema_version") != version:
        raise RecordError(f"{path} has schema_version {content.get('schema_version')!r}, not {version}; {way_out}")
    if "checksum" in content and content["checksum"] != checksum(content):
        raise RecordError(f"{path} was changed after it was written: key checksum does not fit the content; {way_out}")
    slug = content["device"].get("slug") if isinstance(content.get("device"), dict) else None
    if not isinstance(slug, str):
        raise RecordError(f"{path}: key device.slug is missing; {way_out}")
    if device is not None and slug != device:
        raise RecordError(f"{path} is of device {slug}, among what is of {device}; {way_out}")
    return slug


def is_positive(value: object) -> bool:
    """Whether a value is a finite number above zero."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
