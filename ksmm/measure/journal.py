"""The journal: each measurement on disk as soon as it is there, so that a job that is stopped loses none."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from ksmm.measure.files import write_atomically
from ksmm.measure.measurement import Measurement
from ksmm.measure.records import RecordError, checksum, load_json

logger = logging.getLogger(__name__)


class Journal:
    """A folder with a file per measurement, named by a hash of what the measurement is of.

    An identity is a dictionary: problem, implementation, part, protocol, kernel, tuning, PyTorch, device. While a
    measurement runs there is a second file beside it, which says how often it was begun; what was begun and never
    finished was ended from outside, by the system's memory killer or a segmentation fault.
    """

    def __init__(self, folder: Path, kind: type = Measurement) -> None:
        """`kind` is what it keeps: a class with to_dict and from_dict."""
        self.folder = folder
        self.kind = kind

    def find(self, identity: dict[str, Any]) -> Any | None:
        """The measurement of that identity, None if there is none that can be used."""
        path = self._path(identity)
        if not path.exists():
            return None
        try:
            entry = load_json(path)
            if entry.get("checksum") != checksum(entry) or entry["identity"] != identity:
                raise RecordError(f"{path} was changed after it was written")
            return self.kind.from_dict(entry["measurement"])
        except (RecordError, KeyError, TypeError) as error:
            logger.warning("measuring again what the journal cannot tell: %s", error)
            return None

    def add(self, identity: dict[str, Any], measurement: Any) -> None:
        """Keeps a measurement."""
        entry = {"identity": identity, "measurement": measurement.to_dict()}
        entry["checksum"] = checksum(entry)
        write_atomically(self._path(identity), json.dumps(entry, ensure_ascii=False, allow_nan=False) + "\n")
        self.end(identity)

    def begin(self, identity: dict[str, Any]) -> int:
        """Notes that a measurement begins.

        Returns:
            How often it was begun before without coming to an end.
        """
        path = self._begun_path(identity)
        try:
            before = int(path.read_text())
        except (OSError, ValueError):
            before = 0
        write_atomically(path, f"{before + 1}\n")
        return before

    def end(self, identity: dict[str, Any]) -> None:
        """Notes that this process is still there after a measurement."""
        self._begun_path(identity).unlink(missing_ok=True)

    def remove(self, identities: list[dict[str, Any]]) -> None:
        """Forgets measurements, and what processes that were killed left of writing them."""
        names = {self._path(identity).stem for identity in identities}
        for path in self.folder.glob("*"):  # listed once: there may be tens of thousands of both
            if path.name.lstrip(".").split(".")[0] in names:
                path.unlink(missing_ok=True)

    def _path(self, identity: dict[str, Any]) -> Path:
        canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"))
        return self.folder / f"{hashlib.sha256(canonical.encode()).hexdigest()[:32]}.json"

    def _begun_path(self, identity: dict[str, Any]) -> Path:
        return self._path(identity).with_suffix(".begun")
