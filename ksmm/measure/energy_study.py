"""The energy study: a job like that of the time study, which checks each product and then measures its energy."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from ksmm.implementations import Implementation
from ksmm.measure import nvidia, timer
from ksmm.measure.bench import Bench, is_poison, one_line
from ksmm.measure.check import Reference
from ksmm.measure.energy import EnergyMeter, open_meter
from ksmm.measure.energy_counter import CounterError, NoCounterError
from ksmm.measure.energy_protocol import EnergyProtocol
from ksmm.measure.energy_reading import energy_values, protocol_met
from ksmm.measure.energy_shares import Shares
from ksmm.measure.measurement import Measurement
from ksmm.measure.protocol import Protocol
from ksmm.measure.samples import interquartile_range, median
from ksmm.measure.study import Study
from ksmm.measure.tasks import Task
from ksmm.problem import Problem

logger = logging.getLogger(__name__)

_LAUNCHING_MATTERS = 0.5
"""A product whose launching takes more than this share of its time is replayed from a CUDA graph. The GPU waits only
at shares near 1; well below it, launching is still cheap enough to do without a graph."""

_WAITED = "the GPU had nothing to do between some products"

_LAUNCHING_LOOKED_AT_BELOW_S = 1e-3
"""Launching takes tens of microseconds, and looking at it takes 20 products."""

_QUICK_S = 1e-4
"""Quicker products are replayed in any case: CUDA's whole queue of launches is over before a slow counter answers."""

_REPLAY_S, _MOST_REPLAYED = 2e-3, 256
"""How long a replay takes at least, unless that would be too many products to capture."""


class EnergyStudy(Study):
    """Energy, and the time and power that belong to it.

    Without a counter everything is skipped, for that reason; with one that cannot be believed everything fails.

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
        self.fault: CounterError | None = None
        self.shares = Shares(energy_protocol.seconds_per_pattern, [])

    def prepare(self, device_type: str, tasks: Sequence[Task]) -> None:
        """Opens the counter and measures its period; shares the time of a pattern among its measurements."""
        self.shares = Shares(self.energy_protocol.seconds_per_pattern, tasks)
        try:
            self.meter = open_meter(device_type, self.energy_protocol)
        except NoCounterError as error:
            self.reason = str(error)
            logger.info("nothing can be measured: %s", error)
            return
        except CounterError as error:
            self.fault = error
            logger.error("nothing can be measured: %s", error)
            return
        logger.info(
            "%s advances every %.3g s; windows of %.3g s are certain to %g; a measurement takes about %.3g s",
            self.meter.counter.name,
            self.meter.period_s,
            self.meter.window_s,
            self.energy_protocol.max_quantisation,
            self.meter.usual_s,
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
        return 60 + 2 * self.energy_protocol.seconds_per_pattern


class EnergyBench(Bench):
    """Measures the energy of implementations on one problem, each checked before.

    Args:
        problem, protocol, reference: see Bench.
        study: what has the meter, or the reason why there is none.
    """

    def __init__(self, problem: Problem, protocol: Protocol, reference: Reference, study: EnergyStudy) -> None:
        super().__init__(problem, protocol, reference)
        self._study = study
        self._seconds = study.energy_protocol.seconds_per_pattern

    def measure(self, implementation: Implementation, part: str = "whole") -> Measurement:
        """See Bench; takes as much time as the other measurements of the pattern leave it."""
        meter = self._study.meter
        self._seconds = self._study.shares.seconds(self.problem, implementation, meter.usual_s if meter else 0.0)
        return super().measure(implementation, part)

    def _reason_to_skip(self, implementation: Implementation) -> str | None:
        if self._study.meter is None and self._study.fault is None:
            return self._study.reason
        return super()._reason_to_skip(implementation)

    def _measure(self, implementation: Implementation, part: str) -> dict[str, Any]:
        if self._study.fault is not None:
            raise CounterError(str(self._study.fault))
        return super()._measure(implementation, part)

    def _sampled(self, run: Callable[[], object], estimate_s: float) -> dict[str, Any]:
        meter, start = self._study.meter, time.monotonic()
        try:
            load, products, note = self._without_gaps(run, estimate_s)
            reading = meter.measure(load, estimate_s * products, self._seconds, products)
        finally:
            self._study.shares.spend(self.problem, time.monotonic() - start)
        return {
            "samples_s": reading.samples_s,
            "runs_per_sample": int(min(reading.runs)),
            "protocol_met": protocol_met(reading, self._study.energy_protocol),
            "median_s": median(reading.samples_s),
            "iqr_s": interquartile_range(reading.samples_s),
            "device_state": nvidia.device_state() if self.problem.device_type == "cuda" else {},
            "energy": energy_values(reading),
            "note": "; ".join(text for text in (note, _WAITED if reading.waited else "") if text),
        }

    def _without_gaps(self, run: Callable[[], object], estimate_s: float) -> tuple[Callable[[], object], int, str]:
        """What to run, how many products that is, and a note: a CUDA graph where the GPU would wait for launches."""
        meter = self._study.meter
        if self.problem.device_type != "cuda" or estimate_s >= _LAUNCHING_LOOKED_AT_BELOW_S:
            return run, 1, ""
        share = meter.launch_share(run)
        if share <= _LAUNCHING_MATTERS and estimate_s >= _QUICK_S:
            return run, 1, ""
        launching = f"launching takes {min(share, 1.0):.0%} of a product's time"
        fewest = max(self.protocol.runs_per_sample, self._study.energy_protocol.min_runs)
        products = max(fewest, min(_MOST_REPLAYED, math.ceil(_REPLAY_S / max(estimate_s, 1e-9))))
        try:
            replay = timer.captured(run, products).replay
            return replay, products, f"{launching}; replayed from a CUDA graph of {products}"
        except RuntimeError as error:
            if is_poison(error):
                raise
            return run, 1, f"{launching}, the GPU may wait in between; no CUDA graph: {one_line(error)}"
