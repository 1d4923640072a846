"""What one entry yields: status, samples, error, sizes; the rows of this study's records."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from ksmm.measure.measurement import six_digits
from ksmm.networks.entry import Entry

_NUMBERS = ("median_s", "iqr_s", "relative_error", "tolerance", "duration_s")


@dataclass(frozen=True)
class NetworkMeasurement:
    """What came out of measuring one entry.

    Attributes:
        entry: what was measured.
        status, reason: as in ksmm.measure.measurement; the reason of ok is empty.
        samples_s: seconds of one forward pass, one entry per sample; empty unless ok.
        runs_per_sample: forward passes per sample; 0 unless ok.
        median_s, iqr_s: of the samples; None unless ok.
        protocol_met: whether there are as many samples and runs as the protocol asks for; None unless ok.
        relative_error: of the first and the last item of the batch, against the dense equivalent in float64; None where
            it got not so far, and where the output holds NaN or infinity.
        tolerance: what that was held to; None where it got not so far.
        parameters: of the module measured; None where it could not be built.
        operations_per_row: of its linear layers, on one row (token) each; None where it could not be built.
        started_at, duration_s: ISO 8601 in UTC, and seconds that the whole measurement took.
        device_state: clocks, power and temperature just after timing, as far as NVML says.
    """

    entry: Entry
    status: str
    reason: str = ""
    samples_s: tuple[float, ...] = ()
    runs_per_sample: int = 0
    median_s: float | None = None
    iqr_s: float | None = None
    protocol_met: bool | None = None
    relative_error: float | None = None
    tolerance: float | None = None
    parameters: int | None = None
    operations_per_row: int | None = None
    started_at: str = ""
    duration_s: float = 0.0
    device_state: dict[str, float] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, those of the entry among them, numbers rounded to six significant digits."""
        own = [field.name for field in dataclasses.fields(self) if field.name != "entry"]
        values = self.entry.to_dict() | {name: getattr(self, name) for name in own}
        values["samples_s"] = [six_digits(sample) for sample in self.samples_s]
        return values | {name: None if values[name] is None else six_digits(values[name]) for name in _NUMBERS}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> NetworkMeasurement:
        """Reads what to_dict wrote.

        Raises:
            TypeError: a field is missing or unknown.
            ValueError: the entry is none.
        """
        names = [field.name for field in dataclasses.fields(Entry)]
        entry = Entry(**{name: value for name, value in values.items() if name in names})
        rest = {name: value for name, value in values.items() if name not in names}
        return cls(entry=entry, **{**rest, "samples_s": tuple(rest["samples_s"])})
