"""Records that cannot be used: never deleted, but set aside with the reason, so that their job runs again."""

from __future__ import annotations

import hashlib
import logging
import shutil
from pathlib import Path

from ksmm.measure.files import write_atomically

logger = logging.getLogger(__name__)


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
