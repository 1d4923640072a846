"""How an energy is measured (appendix B.1): how many windows of how many products, how exactly, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ksmm.measure.parameters import Parameters


@dataclass(frozen=True)
class EnergyProtocol(Parameters):
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

    said: ClassVar[str] = "energy protocol"

    samples: int = 10
    min_runs: int = 16
    max_quantisation: float = 0.02
    settle_seconds: float = 0.3
    idle_seconds: float = 0.5
    seconds_per_pattern: float = 120.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("samples", "min_runs"):
            self.check(getattr(self, name) >= 1, name, "at least 1")
        self.check(0 < self.max_quantisation <= 1, "max_quantisation", "above 0 and at most 1")
        for name in ("settle_seconds", "idle_seconds"):
            self.check(0 <= getattr(self, name) < float("inf"), name, "at least 0")
        self.check(0 < self.seconds_per_pattern < float("inf"), "seconds_per_pattern", "a positive number of seconds")
