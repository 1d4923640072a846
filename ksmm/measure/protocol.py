"""How a number is measured (appendix B.1): how many samples of how many products, and within what bounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Protocol:
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

    min_samples: int = 10
    max_samples: int = 50
    runs_per_sample: int = 10
    target_relative_iqr: float = 0.01
    max_seconds: float = 5.0
    max_seconds_per_run: float = 2.0
    seed: int = 0
    rest_seconds: float = 0.5

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_type(field.name, getattr(self, field.name), integer=field.type == "int")
        for name in ("min_samples", "runs_per_sample"):
            _check(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        _check(self.max_samples >= self.min_samples, "max_samples", self.max_samples, "at least min_samples")
        _check(self.target_relative_iqr >= 0, "target_relative_iqr", self.target_relative_iqr, "at least 0")
        for name in ("max_seconds", "max_seconds_per_run"):
            _check(0 < getattr(self, name) < float("inf"), name, getattr(self, name), "a positive number of seconds")
        _check(0 <= self.rest_seconds < float("inf"), "rest_seconds", self.rest_seconds, "at least 0")
        _check(0 <= self.seed < 2**63, "seed", self.seed, "at least 0 and below 2^63")

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Protocol:
        """A protocol from a config's `protocol:` section; keys left out have their defaults.

        Raises:
            ValueError: a key is unknown, or a value is out of its range.
            TypeError: a value has the wrong type.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise ValueError(f"unknown protocol key {unknown[0]!r}; choose among {', '.join(known)}")
        return cls(**values)

    def to_dict(self) -> dict[str, int | float]:
        """The parameters by name, as they are kept in a record."""
        return dataclasses.asdict(self)


def _check_type(name: str, value: object, integer: bool) -> None:
    wanted = int if integer else (int, float)
    if isinstance(value, bool) or not isinstance(value, wanted):
        kind = "an integer" if integer else "a number"
        raise TypeError(f"protocol key {name} is {value!r} ({type(value).__name__}); it must be {kind}")


def _check(fine: bool, name: str, value: object, wanted: str) -> None:
    if not fine:
        raise ValueError(f"protocol key {name} is {value!r}; it must be {wanted}")
