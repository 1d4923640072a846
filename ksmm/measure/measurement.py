"""What one measurement yields: status, samples, error; the rows of a record."""

from __future__ import annotations

import dataclasses
import datetime
import re
from dataclasses import dataclass
from typing import Any

STATUSES = ("ok", "skipped", "out_of_memory", "too_slow", "wrong", "failed")
PARTS = ("whole", "multiplication")
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f]+")


@dataclass(frozen=True)
class Measurement:
    """What came out of measuring one implementation on one problem.

    Attributes:
        pattern: (a, b, c, d).
        batch_size, dtype, layout: the rest of the problem; dtype by name.
        implementation: its name.
        part: "whole", or "multiplication" for line 2 of Algorithm 1 alone.
        status, reason: one of STATUSES, and why; the reason of ok is empty.
        samples_s: seconds of one product, one entry per sample; empty unless ok.
        runs_per_sample: products per sample; 0 unless ok.
        median_s, iqr_s: of the samples; None unless ok.
        protocol_met: whether there are as many samples and runs as the protocol asks for; None unless ok.
        cuda_graph_samples_s: the same, replayed from a CUDA graph; empty unless on CUDA and median_s is below
            timer.CUDA_GRAPH_BELOW_S, which was 50 µs for records of earlier versions of ksmm.
        relative_error, tolerance: against float64, None where it got not so far; and what it is held to.
        started_at, duration_s: ISO 8601 in UTC, and seconds that the whole measurement took.
        device_state: clocks, power and temperature just after timing, as far as NVML says.
        note: anything else worth knowing.
        configuration: the name of the kernel's configuration; empty for others, on a CPU, and for what has no time.
        gpu: a hash of the UUID of the GPU that it was made on, which for a job that was stopped and went on elsewhere
            need not be that of the record; empty on a CPU, and in records of earlier versions of ksmm.
        energy: what energy_values returns, where the energy was measured; the times are then of the same windows.
    """

    pattern: tuple[int, int, int, int]
    batch_size: int
    dtype: str
    layout: str
    implementation: str
    part: str
    status: str
    reason: str = ""
    samples_s: tuple[float, ...] = ()
    runs_per_sample: int = 0
    median_s: float | None = None
    iqr_s: float | None = None
    protocol_met: bool | None = None
    cuda_graph_samples_s: tuple[float, ...] = ()
    relative_error: float | None = None
    tolerance: float | None = None
    started_at: str = ""
    duration_s: float = 0.0
    device_state: dict[str, float] = dataclasses.field(default_factory=dict)
    note: str = ""
    configuration: str = ""
    gpu: str = ""
    energy: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, object]:
        """The fields by name, numbers rounded to six significant digits (a clock tells no more), texts on one line.

        The energy is left out where none was measured, configuration and GPU where there is none to name.
        """
        values = dataclasses.asdict(self)
        for name in ("reason", "note"):
            values[name] = _CONTROL_CHARACTERS.sub(" ", values[name])
        values["pattern"] = list(self.pattern)
        for name in ("samples_s", "cuda_graph_samples_s"):
            values[name] = [six_digits(sample) for sample in values[name]]
        for name in ("median_s", "iqr_s", "relative_error", "tolerance", "duration_s"):
            values[name] = None if values[name] is None else six_digits(values[name])
        energy = values.pop("energy")
        for name in ("configuration", "gpu"):
            if not values[name]:
                del values[name]
        return values if energy is None else values | {"energy": rounded(energy)}

    @classmethod
    def from_dict(cls, values: dict[str, object]) -> Measurement:
        """Reads what to_dict wrote.

        Raises:
            TypeError: a field is missing or unknown.
        """
        lists = ("pattern", "samples_s", "cuda_graph_samples_s")
        return cls(**{name: tuple(value) if name in lists else value for name, value in values.items()})


def rounded(values: dict[str, Any]) -> dict[str, Any]:
    """The same with every number, and every list of numbers, rounded to six significant digits."""
    return {name: _any_rounded(value) for name, value in values.items()}


def _any_rounded(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [six_digits(entry) for entry in value]
    return six_digits(value) if isinstance(value, float) else value


def six_digits(value: float) -> float:
    """To six significant digits, as numbers stand in records."""
    return float(f"{value:.6g}")


def utc_now() -> str:
    """The present time in UTC, ISO 8601 to the millisecond."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
