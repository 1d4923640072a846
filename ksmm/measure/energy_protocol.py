"""How an energy is measured (appendix B.1): how many windows of how many products, how exactly, and for how long."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class EnergyProtocol:
    """The parameters of an energy measurement; the paper's are 10 measurements of at least 16 runs.

    Attributes:
        samples: windows that the median is over.
        min_runs: products in each window, at least.
        max_quantisation: what a window's length may be uncertain by, relative to it; windows are as long as that takes.
        settle_seconds: load before the first window, and rest before idle power is measured: power takes a while to
            follow.
        idle_seconds: how long idle power is measured, at least; as long as a window if that is longer.
        seconds_per_pattern: cap on the time under load and at rest that all measurements of a pattern take together.

    Raises:
        TypeError: a value is not a number, or not an integer where one is needed.
        ValueError: a value is out of its range.
    """

    samples: int = 10
    min_runs: int = 16
    max_quantisation: float = 0.02
    settle_seconds: float = 0.3
    idle_seconds: float = 0.5
    seconds_per_pattern: float = 120.0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            wanted, kind = (int, "an integer") if field.type == "int" else ((int, float), "a number")
            if isinstance(value, bool) or not isinstance(value, wanted):
                raise TypeError(f"energy protocol key {field.name} is {value!r}; it must be {kind}")
        for name in ("samples", "min_runs"):
            self._check(getattr(self, name) >= 1, name, "at least 1")
        self._check(0 < self.max_quantisation <= 1, "max_quantisation", "above 0 and at most 1")
        for name in ("settle_seconds", "idle_seconds"):
            self._check(0 <= getattr(self, name) < float("inf"), name, "at least 0")
        self._check(0 < self.seconds_per_pattern < float("inf"), "seconds_per_pattern", "a positive number of seconds")

    def _check(self, fine: bool, name: str, wanted: str) -> None:
        if not fine:
            raise ValueError(f"energy protocol key {name} is {getattr(self, name)!r}; it must be {wanted}")

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> EnergyProtocol:
        """A protocol from a config's `energy.protocol:` section; keys left out have their defaults.

        Raises:
            ValueError: a key is unknown, or a value is out of its range.
            TypeError: a value has the wrong type.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise ValueError(f"unknown energy protocol key {unknown[0]!r}; choose among {', '.join(known)}")
        return cls(**values)

    def to_dict(self) -> dict[str, int | float]:
        """The parameters by name, as they are kept in a record."""
        return dataclasses.asdict(self)
