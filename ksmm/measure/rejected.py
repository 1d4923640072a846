"""Records that cannot be used: never deleted, but set aside with the reason, so that their job runs again."""

from __future__ import annotations

import hashlib
import logging
import shutil
from pathlib import Path
from typing import Any

from ksmm.measure.files import write_atomically
from ksmm.measure.records import RecordError, read_record

logger = logging.getLogger(__name__)


def read_record_of(path: Path, device: str | None) -> dict[str, Any]:
    """Reads a record that must be of a device.

    Args:
        path: of the record.
        device: its slug; None allows any.

    Raises:
        RecordError: it cannot be used, or is of another device.
        OSError: it cannot be read.
    """
    record = read_record(path)
    slug = record["device"]["slug"]
    if device is not None and slug != device:
        raise RecordError(f"record {path} is of device {slug}, among those of {device}; put it among its own")
    return record


def set_aside(path: Path, rejected: Path, reason: str) -> Path:
    """Puts a record into the folder `rejected`, with the reason in <name>.reason.txt.

    It is moved if that folder is beside the records' own, so that its job runs again, and copied otherwise (published
    records). An earlier reject of that name stays.

    Returns:
        Where it is now.
    """
    rejected.mkdir(parents=True, exist_ok=True)
    content_hash = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    target = rejected / f"{path.stem}-{content_hash}{path.suffix}"
    if rejected.resolve().parent == path.resolve().parent.parent:
        shutil.move(path, target)
        done = "moved"
    else:
        shutil.copyfile(path, target)
        done = "copied"
    write_atomically(target.with_name(f"{target.name}.reason.txt"), f"{reason}\n")
    logger.warning("%s (%s to %s)", reason, done, target)
    return target
