"""The energy study: a job like that of the time study, which checks each product and then measures its energy."""

from __future__ import annotations

import logging
from collections import Counter as Multiset
from collections.abc import Callable, Sequence
from typing import Any

from ksmm.implementations import Implementation
from ksmm.measure import nvidia, timer
from ksmm.measure.bench import Bench
from ksmm.measure.check import Reference
from ksmm.measure.energy import EnergyMeter
from ksmm.measure.energy_counter import CounterError, NoCounterError, open_counter
from ksmm.measure.energy_protocol import EnergyProtocol
from ksmm.measure.energy_reading import energy_values, protocol_met
from ksmm.measure.protocol import Protocol
from ksmm.measure.study import Study
from ksmm.measure.tasks import Task
from ksmm.problem import Problem

logger = logging.getLogger(__name__)


class EnergyStudy(Study):
    """Energy, and the time and power that belong to it; without a counter everything is skipped, for that reason.

    Args:
        protocol: how products are checked and tried before.
        energy_protocol: see EnergyProtocol.
    """

    parts = ("whole",)

    def __init__(self, protocol: Protocol, energy_protocol: EnergyProtocol) -> None:
        super().__init__(protocol)
        self.energy_protocol = energy_protocol
        self.meter: EnergyMeter | None = None
        self.reason = "the energy meter was not prepared"
        self.seconds = energy_protocol.seconds_per_pattern

    def prepare(self, device_type: str, tasks: Sequence[Task]) -> None:
        """Opens the counter and measures its period; shares the time of a pattern among its measurements."""
        self.seconds = self.energy_protocol.seconds_per_pattern / _most_per_pattern(tasks)
        try:
            self.meter = EnergyMeter(open_counter(device_type), self.energy_protocol, device_type)
        except (NoCounterError, CounterError) as error:
            self.reason = str(error)
            logger.info("nothing can be measured: %s", error)
            return
        logger.info(
            "%s advances every %.3g s; windows of %.3g s are certain to %g; at most %.3g s for each measurement",
            self.meter.counter.name,
            self.meter.period_s,
            self.meter.window_s,
            self.energy_protocol.max_quantisation,
            self.seconds,
        )

    def bench(self, problem: Problem, reference: Reference) -> Bench:
        """What measures the energy of implementations on a problem."""
        return EnergyBench(problem, self.protocol, reference, self)

    def protocol_values(self) -> dict[str, object]:
        """Those of the time study, and the energy protocol under the key energy."""
        return super().protocol_values() | {"energy": self.energy_protocol.to_dict()}

    @property
    def extra_seconds(self) -> float:
        """Twice what a measurement may take, since a counter that wraps is given a second chance, and some more."""
        return 60 + 2 * self.seconds


def _most_per_pattern(tasks: Sequence[Task]) -> int:
    supported = [task for task in tasks if task.implementation.supports(task.problem) is None]
    return max(Multiset(task.problem.pattern for task in supported).values(), default=1)


class EnergyBench(Bench):
    """Measures the energy of implementations on one problem, each checked before.

    Args:
        problem, protocol, reference: see Bench.
        study: what has the meter, or the reason why there is none.
    """

    def __init__(self, problem: Problem, protocol: Protocol, reference: Reference, study: EnergyStudy) -> None:
        super().__init__(problem, protocol, reference)
        self._study = study

    def _reason_to_skip(self, implementation: Implementation) -> str | None:
        return self._study.reason if self._study.meter is None else super()._reason_to_skip(implementation)

    def _sampled(self, run: Callable[[], object], estimate_s: float) -> dict[str, Any]:
        meter = self._study.meter
        try:
            reading = meter.measure(run, estimate_s, self._study.seconds)
        except CounterError:
            if not meter.counter.wraps:
                raise
            reading = meter.measure(run, estimate_s, self._study.seconds)
        return {
            "samples_s": reading.samples_s,
            "runs_per_sample": int(min(reading.runs)),
            "protocol_met": protocol_met(reading, self._study.energy_protocol),
            "median_s": timer.median(reading.samples_s),
            "iqr_s": timer.interquartile_range(reading.samples_s),
            "device_state": nvidia.device_state() if self.problem.device_type == "cuda" else {},
            "energy": energy_values(reading),
        }
