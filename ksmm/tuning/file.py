"""A tuning file: the entries of one device, and what they were measured with. JSON, a line for each entry."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ksmm.tuning.entry import Entry

SCHEMA_VERSION = 1
_KEYS = {"schema_version", "device", "device_name", "measured_with", "failures", "entries"}
_OF_A_FAILURE = 4


class TuningError(ValueError):
    """A tuning file that cannot be used; the message names the file and what is wrong with it."""


@dataclass
class TuningFile:
    """What is known of one device.

    Attributes:
        device, device_name: its slug ("nvidia-h200") and what its driver calls it ("NVIDIA H200").
        measured_with: for each run what it was made with: versions of PyTorch and CUDA, hash of the kernel's sources.
        entries: what was measured.
        failures: configurations and rivals that ended a process or never ended, each as [problem, its name, reason,
            kernel_hash].
    """

    device: str
    device_name: str
    measured_with: list[dict[str, Any]] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    failures: list[list[str]] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Adds an entry in place of one on the same key and batch sizes."""
        place = (entry.key, entry.first_batch, entry.last_batch)
        self.entries = [old for old in self.entries if (old.key, old.first_batch, old.last_batch) != place]
        self.entries.append(entry)

    def include(self, other: TuningFile) -> None:
        """Adds what another run on a device of the same name measured, in place of what is known of the same problems.

        What nothing here was measured with any more is dropped.

        Raises:
            TuningError: it is another device's.
        """
        if other.device_name != self.device_name:
            raise TuningError(f"one tuning file is of {self.device_name} and another of {other.device_name}")
        self.measured_with += [facts for facts in other.measured_with if facts not in self.measured_with]
        for entry in other.entries:
            facts = other.measured_with[entry.measured_with]
            self.add(replace(entry, measured_with=self.measured_with.index(facts)))
        self.failures += [failure for failure in other.failures if failure not in self.failures]
        used = sorted({entry.measured_with for entry in self.entries})
        self.measured_with = [self.measured_with[number] for number in used]
        self.entries = [replace(entry, measured_with=used.index(entry.measured_with)) for entry in self.entries]


def write_tuning(path: Path, tuning: TuningFile) -> None:
    """Writes a tuning file, whole or not at all, in an order that does not depend on that of measuring.

    Raises:
        OSError: it cannot be written.
    """
    from ksmm.measure.files import write_atomically
    from ksmm.measure.records import dump

    entries = sorted(tuning.entries, key=lambda entry: (*entry.key, entry.first_batch))
    content = {
        "schema_version": SCHEMA_VERSION,
        "device": tuning.device,
        "device_name": tuning.device_name,
        "measured_with": tuning.measured_with,
        "failures": tuning.failures,
        "entries": [entry.to_dict() for entry in entries],
    }
    write_atomically(path, dump(content, "entries"))


def read_tuning(path: Path) -> TuningFile:
    """Reads and checks a tuning file.

    Raises:
        TuningError: it is not one, or not whole.
        OSError: it cannot be read.
    """
    if path.is_dir():
        raise TuningError(f"the tuning file {path} is a folder; name a file in it, with KSMM_TUNING_FILE or --output")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # JSON, UTF-8
        raise TuningError(f"the tuning file {path} is not whole JSON ({error})") from None
    fault = _fault(content)
    if fault:
        raise TuningError(f"the tuning file {path} {fault}")
    entries = []
    for number, values in enumerate(content["entries"]):
        try:
            entries.append(Entry.from_dict(values))
            if entries[-1].measured_with >= len(content["measured_with"]):
                raise ValueError("key measured_with names nothing in the file")
        except ValueError as error:
            raise TuningError(f"the tuning file {path}, entries[{number}]: {error}") from None
    kept = {name: content[name] for name in ("device", "device_name", "measured_with", "failures")}
    return TuningFile(**kept, entries=entries)


def _fault(content: Any) -> str | None:
    """What is wrong with a file's content but for its entries, None if nothing is."""
    if not isinstance(content, dict):
        return f"holds a {type(content).__name__}, not an object with keys"
    version = content.get("schema_version")
    if version != SCHEMA_VERSION:
        return f"has schema_version {version!r}, and this ksmm reads {SCHEMA_VERSION}"
    if set(content) != _KEYS:
        return f"has the wrong keys: {', '.join(sorted(set(content) ^ _KEYS))}"
    for name in ("device", "device_name"):
        if not isinstance(content[name], str) or not content[name]:
            return f"has key {name} = {content[name]!r}"
    for name, kind in (("measured_with", dict), ("failures", list), ("entries", dict)):
        if not isinstance(content[name], list) or not all(isinstance(entry, kind) for entry in content[name]):
            return f"has a key {name} that is no list of {'objects' if kind is dict else 'lists'}"
    for number, failure in enumerate(content["failures"]):
        if len(failure) == _OF_A_FAILURE - 1:  # of before: of a kernel that is not known, and so is tried again
            failure.append("")
        if len(failure) != _OF_A_FAILURE or not all(isinstance(text, str) for text in failure):
            return f"has failures[{number}] = {failure}; it must be {_OF_A_FAILURE} texts"
    return None
