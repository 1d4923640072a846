"""The files of both kinds of ceilings, and what is read from them; no PyTorch, which tables do not need."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksmm.measure.files import write_atomically
from ksmm.measure.records import RecordError, checksum, dump, load_json
from ksmm.names import dtype_name
from ksmm.roofline import attainable_joules, attainable_seconds

if TYPE_CHECKING:
    from ksmm.problem import Problem
    from ksmm.work import Work

SCHEMA_VERSION = 1
"""Of both."""

_AGAIN = "remove it and measure the ceilings again"
_AGAIN_JOULES = "remove it and measure the energy ceilings again"


@dataclass(frozen=True)
class Ceilings:
    """The measured ceilings of a device.

    Attributes:
        device: its slug.
        copy_bytes_per_s: bytes read plus bytes written, per second of a large copy.
        operations_per_s: of a large square matrix product, by name of the dtype; float32 without TF32.
    """

    device: str
    copy_bytes_per_s: float
    operations_per_s: dict[str, float]

    def attainable_seconds(self, work: Work | Problem) -> float | None:
        """The roofline of a problem; None if the rate of its dtype was not measured."""
        rate = self.operations_per_s.get(dtype_name(work.dtype))
        return None if rate is None else attainable_seconds(work, self.copy_bytes_per_s, rate)


@dataclass(frozen=True)
class EnergyCeilings:
    """The measured costs of a device.

    Attributes:
        device: its slug.
        idle_w: power at rest of a device in use: the median of what was measured after each load.
        joules_per_byte: above rest, of a large copy; bytes read and bytes written both counted.
        joules_per_operation: above rest, of a large matrix product, by name of the dtype; float32 without TF32.
    """

    device: str
    idle_w: float
    joules_per_byte: float
    joules_per_operation: dict[str, float]

    def attainable_joules(self, work: Work | Problem, roofline_s: float) -> float | None:
        """The energy roofline of a problem; None if its dtype was not measured."""
        cost = self.joules_per_operation.get(dtype_name(work.dtype))
        return None if cost is None else attainable_joules(work, roofline_s, self.idle_w, self.joules_per_byte, cost)


def write_ceilings(path: Path, content: dict[str, Any]) -> None:
    """Adds a version and a checksum to ceilings and writes them.

    Raises:
        ValueError: a number is NaN or infinite.
        OSError: the file cannot be written.
    """
    content = {"schema_version": SCHEMA_VERSION, **content}
    write_atomically(path, dump({**content, "checksum": checksum(content)}, listed=""))


def read_ceilings(path: Path, device: str | None = None) -> Ceilings:
    """Reads what ksmm.measure.ceilings.measure_ceilings wrote.

    Args:
        path: of the file.
        device: the slug of the device that it must be of; None allows any.

    Raises:
        RecordError: it is no such file, was changed, or is of another device; the message names the key.
        OSError: it cannot be read.
    """
    content = load_json(path)
    slug = _checked_device(path, content, device, _AGAIN)
    rates = content.get("operations_per_s")
    if not isinstance(rates, dict) or not all(_is_positive(rate) for rate in rates.values()):
        raise RecordError(f"{path}: key operations_per_s is not a table of positive numbers by dtype; {_AGAIN}")
    if not _is_positive(content.get("copy_bytes_per_s")):
        raise RecordError(f"{path}: key copy_bytes_per_s is not a positive number; {_AGAIN}")
    return Ceilings(slug, content["copy_bytes_per_s"], rates)


def read_energy_ceilings(path: Path, device: str | None = None) -> EnergyCeilings | None:
    """Reads what ksmm.measure.energy_ceilings.measure_energy_ceilings wrote; None where the device has no counter.

    Args:
        path: of the file.
        device: the slug of the device that it must be of; None allows any.

    Raises:
        RecordError: it is no such file, was changed, or is of another device; the message names the key.
        OSError: it cannot be read.
    """
    content = load_json(path)
    slug = _checked_device(path, content, device, _AGAIN_JOULES)
    if content.get("status") == "skipped":
        return None
    costs = content.get("joules_per_operation")
    if not isinstance(costs, dict) or not all(_is_positive(cost) for cost in costs.values()):
        raise RecordError(
            f"{path}: key joules_per_operation is not a table of positive numbers by dtype; {_AGAIN_JOULES}"
        )
    for name in ("idle_w", "joules_per_byte"):
        if not _is_positive(content.get(name)):
            raise RecordError(f"{path}: key {name} is not a positive number; {_AGAIN_JOULES}")
    return EnergyCeilings(slug, content["idle_w"], content["joules_per_byte"], costs)


def _checked_device(path: Path, content: dict[str, Any], device: str | None, way_out: str) -> str:
    """The slug of the device that they are of; the files of earlier versions of ksmm have no checksum."""
    if content.get("schema_version") != SCHEMA_VERSION:
        found = content.get("schema_version")
        raise RecordError(f"{path} has schema_version {found!r}, not {SCHEMA_VERSION}; {way_out}")
    if "checksum" in content and content["checksum"] != checksum(content):
        raise RecordError(f"{path} was changed after it was written: key checksum does not fit the content; {way_out}")
    slug = content["device"].get("slug") if isinstance(content.get("device"), dict) else None
    if not isinstance(slug, str):
        raise RecordError(f"{path}: key device.slug is missing; {way_out}")
    if device is not None and slug != device:
        raise RecordError(f"{path} is of device {slug}, among what is of {device}; {way_out}")
    return slug


def _is_positive(value: object) -> bool:
    """Whether a value is a finite number above zero."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
