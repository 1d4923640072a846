"""What an energy measurement yields: joules and seconds of one product in the same windows, and power at rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ksmm.measure.energy_protocol import EnergyProtocol
from ksmm.measure.samples import interquartile_range, median


@dataclass(frozen=True)
class EnergyReading:
    """The energy of one product.

    Attributes:
        counter: its name.
        counter_period_s: seconds between two advances of it while nothing ran.
        samples_j: joules of one product, one entry per window.
        samples_s: seconds of one product in the same windows.
        runs: products in each window.
        idle_before_w, idle_after_w: power at rest, just before and just after.
        quantisation: how uncertain the length of the shortest window is, relative to it.
        waited: whether a GPU had nothing to do for a while in these windows.
    """

    counter: str
    counter_period_s: float
    samples_j: tuple[float, ...]
    samples_s: tuple[float, ...]
    runs: tuple[float, ...]
    idle_before_w: float
    idle_after_w: float
    quantisation: float
    waited: bool = False

    @property
    def energy_j(self) -> float:
        """The median of samples_j."""
        return median(self.samples_j)

    @property
    def power_w(self) -> float:
        """Mean power over all windows."""
        joules = sum(j * n for j, n in zip(self.samples_j, self.runs, strict=True))
        return joules / sum(s * n for s, n in zip(self.samples_s, self.runs, strict=True))

    @property
    def idle_w(self) -> float:
        """Mean of the power before and after."""
        return (self.idle_before_w + self.idle_after_w) / 2

    @property
    def above_idle_j(self) -> float:
        """The median over the windows of what a product takes more than rest would in the same time.

        Zero or less where the product draws no more than rest does: then it cannot be told from it.
        """
        pairs = zip(self.samples_j, self.samples_s, strict=True)
        return median(tuple(joules - self.idle_w * seconds for joules, seconds in pairs))


def protocol_met(reading: EnergyReading, protocol: EnergyProtocol) -> bool:
    """Whether there are as many windows and products, and as certain, as the protocol asks for."""
    enough = len(reading.samples_j) >= protocol.samples and min(reading.runs) >= protocol.min_runs
    return enough and reading.quantisation <= protocol.max_quantisation


def energy_values(reading: EnergyReading) -> dict[str, Any]:
    """What a record keeps of a reading: see EnergyReading; iqr_j is of samples_j."""
    return {
        "counter": reading.counter,
        "counter_period_s": reading.counter_period_s,
        "samples_j": reading.samples_j,
        "runs": reading.runs,
        "energy_j": reading.energy_j,
        "iqr_j": interquartile_range(reading.samples_j),
        "above_idle_j": reading.above_idle_j,
        "power_w": reading.power_w,
        "idle_before_w": reading.idle_before_w,
        "idle_after_w": reading.idle_after_w,
        "quantisation": reading.quantisation,
    }
