"""The energy meter: what one product takes, in joules, from a counter that advances only every now and then.

The product runs over and over, without a gap, while the counter is asked all the time. Windows begin and end where the
counter advances; energy, time and number of products are of the same windows, so that energy = mean power × time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TypeVar

from ksmm.measure import timer
from ksmm.measure.energy_counter import Counter, CounterError, open_counter
from ksmm.measure.energy_load import POLL_S, Queue, Run, launch_share, warm_up
from ksmm.measure.energy_protocol import EnergyProtocol
from ksmm.measure.energy_reading import EnergyReading
from ksmm.measure.energy_trace import Trace, Window

_Result = TypeVar("_Result")

_WARM_UP_S = 1.0
"""Load before the calibration: rest is to be that of a device in use, whose clocks are up."""

_CALIBRATION_TICKS = 20
_CALIBRATION_S = 3.0
_ALMOST = 0.98
"""A window of one period is long enough if it was a little shorter than during the calibration."""

_DOUBLED = 4
"""How often chunks are doubled for a GPU that had to wait; one that waits for each launch always does."""

_STILL_S = 2.0
"""A counter that does not advance for so long while nothing runs stands still."""


class EnergyMeter:
    """Measures with one counter, which it calibrates first; the device must be at rest then.

    Args:
        counter: of the device.
        protocol: see EnergyProtocol.
        device_type: "cpu" or "cuda".
        clock, sleep: of the host; a test gives its own.

    Raises:
        CounterError: the counter stands still, reads zero, or went backwards.
    """

    def __init__(
        self,
        counter: Counter,
        protocol: EnergyProtocol,
        device_type: str,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.counter, self.protocol, self.device_type = counter, protocol, device_type
        self._clock, self._sleep = clock, sleep
        self._regular_period: tuple[float, float] | None = None  # until the calibration has shown it
        trace = self._tried_again(
            lambda: self._at_rest(
                lambda trace, passed: len(trace.ticks) > _CALIBRATION_TICKS or passed > _CALIBRATION_S
            )
        )
        self.period_s = trace.period_s()
        self.uncertainty_s = trace.uncertainty_s()
        self._regular_period = trace.regular_period
        self._slowest_poll_s = trace.slowest_poll_s
        self._idle_w: float | None = trace.whole().power_w
        """Power at rest after the last measurement (at first that of the calibration): that before the next one."""

    @property
    def window_s(self) -> float:
        """How long a window must be for its length to be certain enough, by the calibration."""
        return max(self.period_s, self.uncertainty_s / self.protocol.max_quantisation)

    @property
    def rest_s(self) -> float:
        """How long measuring power at rest takes, about."""
        return self.protocol.settle_seconds + max(self.protocol.idle_seconds, self.window_s) + self.period_s

    @property
    def usual_s(self) -> float:
        """How long a measurement takes, about, whose windows are not longer for want of products."""
        windows_s = self.protocol.samples * (self.window_s + self.period_s)
        return self.protocol.settle_seconds + windows_s + 2 * self.period_s + self.rest_s

    def measure(self, run: Run, estimate_s: float, seconds: float, products: int = 1) -> EnergyReading:
        """The energy of a product that has been warmed up.

        Power at rest is measured after it and, unless the measurement before did so, before it. Where `seconds` are
        too short for as many windows as the protocol asks for there are fewer, but always one, which may take a little
        longer than there is, or else be shorter than it should; the reading says how uncertain it is. With a counter
        that starts at 0 again once in a while, what fails is tried once more.

        Args:
            run: a product, or several.
            estimate_s: seconds that one call of `run` is expected to take.
            seconds: what load and rest may take together.
            products: that one call of `run` computes.

        Raises:
            CounterError: the counter stands still, reads zero, or went backwards.
        """
        return self._tried_again(lambda: self._measure(run, estimate_s, seconds, products))

    def launch_share(self, run: Run) -> float:
        """The share of a product's time that the host needs to launch it; 0 on a CPU, near 1 where the GPU waits."""
        return launch_share(run, self._clock) if self.device_type == "cuda" else 0.0

    def _measure(self, run: Run, estimate_s: float, seconds: float, products: int) -> EnergyReading:
        load_s = max(0.0, seconds - (self.rest_s if self._idle_w is not None else 2 * self.rest_s))
        before = self._idle_w if self._idle_w is not None else self._idle_power_w()
        self._idle_w = None  # should this measurement fail, the next one looks again
        windows, uncertainty_s, waited = self._under_load(run, estimate_s, load_s, products)
        self._idle_w = self._idle_power_w()
        return EnergyReading(
            counter=self.counter.name,
            counter_period_s=self.period_s,
            samples_j=tuple(window.joules / window.runs for window in windows),
            samples_s=tuple(window.seconds / window.runs for window in windows),
            runs=tuple(window.runs for window in windows),
            idle_before_w=before,
            idle_after_w=self._idle_w,
            quantisation=uncertainty_s / min(window.seconds for window in windows),
            waited=waited,
        )

    def _idle_power_w(self) -> float:
        """Mean power while nothing runs, in watts."""
        timer.synchronise(self.device_type)
        self._sleep(self.protocol.settle_seconds)
        seconds = max(self.protocol.idle_seconds, self.window_s)
        trace = self._at_rest(lambda trace, _: len(trace.ticks) > 1 and trace.span_s >= seconds)
        return trace.whole().power_w

    def _tried_again(self, attempt: Callable[[], _Result]) -> _Result:
        """Once more where the counter may merely have started at 0 again."""
        try:
            return attempt()
        except CounterError:
            if not self.counter.wraps:
                raise
            return attempt()

    def _at_rest(self, enough: Callable[[Trace, float], bool]) -> Trace:
        """Asks the counter until it is enough, given the trace and the seconds that have passed."""
        timer.synchronise(self.device_type)
        trace, start = Trace(self.counter, self._clock, self._regular_period), self._clock()
        while not enough(trace, self._clock() - start):
            trace.poll()
            trace.refuse_still(start, _STILL_S)
            self._sleep(POLL_S)
        return trace

    def _under_load(
        self, run: Run, estimate_s: float, seconds: float, products: int
    ) -> tuple[list[Window], float, bool]:
        """The windows of running a product, by how much the length of each may be wrong, whether there were gaps."""
        trace, start = Trace(self.counter, self._clock, self._regular_period), self._clock()
        begin, calls, doubled, waited = start + self.protocol.settle_seconds, 0, 0, False
        trace.done(0)
        queue = Queue(self.device_type, trace, self._sleep, self._slowest_poll_s)
        chunk = max(1, math.ceil(queue.chunk_s / max(estimate_s, 1e-9)))
        windows: list[Window] = []
        while not windows:
            calls += chunk
            queue.run(run, chunk, calls * products)
            passed = self._clock() - start
            waited = queue.waited or waited
            if queue.waited and doubled < _DOUBLED:  # power fell: begin again, with chunks that take longer
                begin, chunk, doubled = self._clock() + self.protocol.settle_seconds, 2 * chunk, doubled + 1
                waited = False
            trace.refuse_still(start, max(_STILL_S, 2 * chunk * passed / calls))
            windows = self._enough(trace, begin, passed, passed / (calls * products), seconds)
        uncertainty_s = self._uncertainty_s(trace, begin) * trace.periods_of(max(window.seconds for window in windows))
        queue.finish()
        return windows, uncertainty_s, waited

    def _enough(self, trace: Trace, begin: float, passed: float, run_s: float, seconds: float) -> list[Window]:
        """The windows if all are there, or time is up; else none.

        One window is waited for a little longer than there is time; what there is then is the whole.
        """
        protocol = self.protocol
        shortest_s = protocol.settle_seconds + protocol.samples * max(self.window_s, protocol.min_runs * run_s)
        if passed < min(seconds, shortest_s) or trace.ticks_between(begin, trace.known_until) < 3:
            return []
        window_s = self._window_s(trace, begin)
        windows = trace.windows(window_s, protocol.min_runs, protocol.samples, begin)
        if len(windows) == protocol.samples or (windows and passed >= seconds):
            return windows
        late_s = protocol.settle_seconds + max(window_s, protocol.min_runs * run_s) + 3 * self.period_s
        return [trace.whole(begin)] if passed >= 2 * seconds + late_s else []

    def _window_s(self, trace: Trace, begin: float) -> float:
        """How long a window must be, by the calibration and by the trace itself."""
        seconds = self._uncertainty_s(trace, begin) / self.protocol.max_quantisation
        return max(_ALMOST * self.period_s, seconds)

    def _uncertainty_s(self, trace: Trace, begin: float) -> float:
        return max(self.uncertainty_s, trace.uncertainty_s(begin))


def open_meter(device_type: str, protocol: EnergyProtocol) -> EnergyMeter:
    """The meter of the device that this process computes on, calibrated at rest after a second of load.

    Raises:
        NoCounterError: the device has no counter that may be read.
        CounterError: it has one that cannot be believed.
        ValueError: neither "cpu" nor "cuda".
    """
    counter = open_counter(device_type)
    warm_up(device_type, _WARM_UP_S)
    time.sleep(protocol.settle_seconds)
    return EnergyMeter(counter, protocol, device_type)
