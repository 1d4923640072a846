"""All configurations of the kernel and its rivals on one problem, each checked against float64 and timed."""

from __future__ import annotations

import dataclasses
import logging
import statistics
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from ksmm.implementations import Implementation, Packed, get_implementation, preference
from ksmm.implementations.kernel import Kernel
from ksmm.measure.bench import Bench
from ksmm.measure.check import Reference
from ksmm.measure.measurement import Measurement
from ksmm.measure.protocol import Protocol
from ksmm.problem import Problem
from ksmm.tuning.numbers import configurations_for
from ksmm.tuning.rivals import rivals

logger = logging.getLogger(__name__)

FINALISTS = 5
_HOPEFUL = 1.3
"""Who takes more than so many times the best in the first round is not timed again."""

TURNS = 3
_CLOSE = 1.1
"""Who is within so many times the best is timed in turns with it, TURNS times in all, each second time in reverse: at
the power limit of a GPU who comes later has a lower clock, and one is up to a tenth slower by that alone. First
finalists among themselves, and then the best of them and rivals."""

_TIE = 1.02
"""A rival that is faster than the kernel by less than this is not worth a choice that depends on the batch size."""


Times = dict[Implementation, list[Measurement]]
"""What was measured of each, once or several times."""


class NothingToTuneError(RuntimeError):
    """The kernel does not run on the device."""


class Configured(Implementation):
    """The kernel in one configuration."""

    def __init__(self, kernel: Kernel, configuration: str | None, number: int) -> None:
        self.name = kernel.name if configuration is None else f"{kernel.name} {configuration}"
        self.configuration = configuration
        self.running_name = configuration or kernel.name
        """What it is called among what failed."""
        self._kernel = kernel
        self._number = number

    def supports(self, problem: Problem) -> str | None:
        """As the kernel."""
        return self._kernel.supports(problem)

    def pack(self, weight: torch.Tensor, layout: str) -> Packed:
        """As the kernel."""
        return self._kernel.pack(weight, layout)

    def matmul(self, packed: Packed, x: torch.Tensor) -> torch.Tensor:
        """Y = X Kᵀ in this configuration, as long as it takes the operands."""
        return self._kernel.matmul_in(self._number, packed, x)


class Contest:
    """One problem, on which all are measured.

    Args:
        problem: what is computed.
        strict: whether by `kernel_strict` instead of `kernel`.
        protocol: of the last round.
        reference: to be shared by problems on the same operands.
        excluded: names of configurations and rivals that are not to be run.
        watched: makes what is around each run, of the name of who runs.
    """

    def __init__(
        self,
        problem: Problem,
        strict: bool,
        protocol: Protocol,
        reference: Reference,
        excluded: Iterable[str] = (),
        watched: Callable[[str], AbstractContextManager[None]] = lambda name: nullcontext(),
    ) -> None:
        self.problem = problem
        self.running = ""
        """The configuration, or the rival, that runs or ran last."""
        self._kernel = get_implementation("kernel_strict" if strict else "kernel")
        self._protocol = protocol
        self._excluded = frozenset(excluded)
        self._watched = watched
        self._bench = Bench(problem, protocol, reference)

    def run(self) -> dict[str, Any] | None:
        """What an Entry says of the times; None if no configuration could be timed.

        Raises:
            PoisonedDeviceError: a CUDA error that this process does not recover from.
        """
        contestants = self._contestants()
        chosen = contestants[0]
        contestants = [one for one in contestants if one.running_name not in self._excluded]
        timed = self._in_turns(self._once(self._finalists(contestants, chosen))) if contestants else {}
        if not timed:
            return None
        best = _surely_best(timed, chosen)
        untuned = chosen if chosen in timed else best
        others = [get_implementation(name) for name in rivals(self.problem) if name not in self._excluded]
        compared = self._in_turns({best: timed[best][-1:], **self._once(others)})
        rivals_ms = {one.name: _milliseconds(of) for one, of in compared.items() if one is not best}
        return {
            "implementation": _surely_fastest(compared, best, self._kernel.name),
            "configuration": best.configuration,
            "configuration_ms": _milliseconds(timed[best]),
            "untuned": self._untuned(),
            "untuned_configuration": untuned.configuration,
            "untuned_ms": _milliseconds(timed[untuned]),
            "rivals_ms": rivals_ms,
        }

    def _contestants(self) -> list[Configured]:
        """The kernel's configurations, the cost model's choice first; the kernel itself where it has none."""
        numbers = configurations_for(self._kernel.name, self.problem)
        if not numbers:
            return [Configured(self._kernel, None, -1)]
        return [Configured(self._kernel, name, number) for name, number in numbers.items()]

    def _finalists(self, contestants: list[Configured], chosen: Configured) -> list[Configured]:
        """The best of a short first round, and the cost model's choice, if it is not excluded."""
        if len(contestants) <= FINALISTS:
            return contestants
        brief = dataclasses.replace(
            self._protocol, min_samples=1, max_samples=1, runs_per_sample=3, max_seconds=self._protocol.max_seconds / 10
        )
        seconds = _decisive({one: [of] for one, of in self._timed(contestants, brief).items()})
        order = sorted(seconds, key=seconds.__getitem__)
        hopeful = [one for one in order[:FINALISTS] if seconds[one] <= _HOPEFUL * seconds[order[0]]]
        return [*(one for one in contestants if one is chosen), *(one for one in hopeful if one is not chosen)]

    def _once(self, contestants: list[Implementation]) -> Times:
        """One measurement of each that is right and could be timed."""
        return {one: [of] for one, of in self._timed(contestants, self._protocol).items()}

    def _in_turns(self, timed: Times) -> Times:
        """The same, and more measurements of those that are close to the best."""
        timed = {one: list(of) for one, of in timed.items()}
        seconds = _decisive(timed)
        limit = _CLOSE * min(seconds.values(), default=0.0)
        close = [one for one in timed if seconds[one] <= limit]
        for turn in range(1, TURNS if len(close) > 1 else 1):
            for one, of in self._timed(close[:: -1 if turn % 2 else 1], self._protocol).items():
                timed[one].append(of)
        return timed

    def _untuned(self) -> str:
        if self._kernel.name == "kernel_strict":
            return self._kernel.name
        return next(
            name for name in preference(self.problem) if get_implementation(name).supports(self.problem) is None
        )

    def _timed(self, contestants: list[Implementation], protocol: Protocol) -> dict[Implementation, Measurement]:
        """What was measured of those that are right and could be timed; an error in the log of any that is wrong."""
        self._bench.protocol = protocol
        found = {}
        for one in contestants:
            self.running = one.running_name if isinstance(one, Configured) else one.name
            with self._watched(self.running):
                measurement = self._bench.measure(one)
            if measurement.status == "ok":
                found[one] = measurement
            elif measurement.status in ("wrong", "failed"):
                logger.error("%s on %s is %s: %s", one.name, self.problem, measurement.status, measurement.reason)
        return found


def _decisive(timed: Times) -> dict[Implementation, float]:
    """Seconds by which one is better than another: replayed from CUDA graphs, if all have such times.

    Small products wait for the host, which takes as long to ask for one configuration as for another; of rivals this
    says who is close, and not who is faster.
    """
    return {one: statistics.median(turns) for one, turns in _by_turn(timed).items()}


def _by_turn(timed: Times) -> dict[Implementation, list[float]]:
    """The same seconds, of each time that one was measured."""
    if all(measurement.cuda_graph_samples_s for turns in timed.values() for measurement in turns):
        return {one: [statistics.median(of.cuda_graph_samples_s) for of in turns] for one, turns in timed.items()}
    return {one: [of.median_s for of in turns] for one, turns in timed.items()}


def _surely_best(timed: Times, untuned: Configured) -> Configured:
    """The fastest; the cost model's choice unless it was slower at each of its turns than the fastest at any.

    At the power limit of a GPU the same product takes up to a tenth longer from one turn to the next, and the least of
    several medians is one that had luck.
    """
    turns = _by_turn(timed)
    best = min(turns, key=lambda one: statistics.median(turns[one]))
    compared = len(turns.get(untuned, ())) > 1
    return untuned if compared and min(turns[untuned]) <= max(turns[best]) else best


def _surely_fastest(compared: Times, best: Configured, kernel: str) -> str:
    """The name of the fastest implementation; the kernel unless it was slower at each of its turns than a rival at any.

    As between configurations: of seven large products that were tuned at the power limit three had a rival for their
    choice that took 1.08 and 1.09 times as long as the kernel in the next sweep.
    """
    of_kernel = [of.median_s for of in compared[best]]
    overall = {kernel: _seconds(compared[best]) / _TIE}
    for one, turns in compared.items():
        if one is not best and max(of.median_s for of in turns) < min(of_kernel):
            overall[one.name] = _seconds(turns)
    return min(overall, key=overall.__getitem__)


def _seconds(turns: list[Measurement]) -> float:
    return statistics.median(measurement.median_s for measurement in turns)


def _milliseconds(turns: list[Measurement]) -> float:
    return float(f"{_seconds(turns) * 1e3:.4g}")
