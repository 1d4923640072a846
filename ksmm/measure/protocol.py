"""How a number is measured (appendix B.1): how many samples of how many products, and within what bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ksmm.measure.parameters import Parameters


@dataclass(frozen=True)
class Protocol(Parameters):
    """The parameters of a timing; the paper's are at least 10 measurements of 10 runs.

    Attributes:
        min_samples: samples that the median is over, at least.
        max_samples: samples, at most; more than min_samples are taken while the IQR is above its target.
        runs_per_sample: products timed together as one sample.
        target_relative_iqr: the IQR over the median at which sampling stops.
        max_seconds: cap on what timing one number may take; fewer runs and samples are taken to stay below it.
        max_seconds_per_run: a product slower than this is not timed; its status is too_slow.
        seed: of the weights and of X.
        rest_seconds: how long a GPU that is at its power limit, or near it, rests at most before a number is timed.

    Raises:
        TypeError: a value is not a number, or not an integer where one is needed.
        ValueError: a value is out of its range.
    """

    said: ClassVar[str] = "protocol"

    min_samples: int = 10
    max_samples: int = 50
    runs_per_sample: int = 10
    target_relative_iqr: float = 0.01
    max_seconds: float = 5.0
    max_seconds_per_run: float = 2.0
    seed: int = 0
    rest_seconds: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("min_samples", "runs_per_sample"):
            self.check(getattr(self, name) >= 1, name, "at least 1")
        self.check(self.max_samples >= self.min_samples, "max_samples", "at least min_samples")
        self.check(self.target_relative_iqr >= 0, "target_relative_iqr", "at least 0")
        for name in ("max_seconds", "max_seconds_per_run"):
            self.check(0 < getattr(self, name) < float("inf"), name, "a positive number of seconds")
        self.check(0 <= self.rest_seconds < float("inf"), "rest_seconds", "at least 0")
        self.check(0 <= self.seed < 2**63, "seed", "at least 0 and below 2^63")
