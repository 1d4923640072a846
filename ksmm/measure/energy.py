"""The energy meter: what one product takes, in joules, from a counter that advances only every now and then.

The product runs over and over, without a gap, while the counter is asked all the time. Windows begin and end where the
counter advances; energy, time and number of products are of the same windows, so that energy = mean power × time.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import torch

from ksmm.measure import timer
from ksmm.measure.energy_counter import Counter
from ksmm.measure.energy_protocol import EnergyProtocol
from ksmm.measure.energy_reading import EnergyReading
from ksmm.measure.energy_trace import Trace

Run = Callable[[], object]

_POLL_S = 1e-3
"""Seconds between two questions to the counter while there is nothing else to do."""

_POLLS_PER_CHUNK = 5
"""Products are started in chunks that take about so many polls: between two of them the counter is asked."""

_CALIBRATION_TICKS = 20
_CALIBRATION_S = 3.0
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
        trace = self._at_rest(lambda trace, passed: len(trace.ticks) > _CALIBRATION_TICKS or passed > _CALIBRATION_S)
        self.period_s = trace.period_s()
        self.uncertainty_s = trace.uncertainty_s()
        self._idle_w: float | None = None
        """Power at rest after the last measurement, which is that before the next one."""

    @property
    def window_s(self) -> float:
        """How long a window must be for its length to be certain enough, by the calibration."""
        return max(self.period_s, self.uncertainty_s / self.protocol.max_quantisation)

    @property
    def rest_s(self) -> float:
        """How long measuring power at rest takes, about."""
        return self.protocol.settle_seconds + max(self.protocol.idle_seconds, self.window_s) + self.period_s

    def measure(self, run: Run, estimate_s: float, seconds: float) -> EnergyReading:
        """The energy of a product that has been warmed up.

        Power at rest is measured after it and, unless the measurement before did so, before it. Where `seconds` are
        too short for as many windows as the protocol asks for there are fewer, but always one, which may take a little
        longer than there is, or else be shorter than it should; the reading says how uncertain it is.

        Args:
            run: one product.
            estimate_s: seconds that one product is expected to take.
            seconds: what load and rest may take together.

        Raises:
            CounterError: the counter stands still, reads zero, or went backwards.
        """
        load_s = max(0.0, seconds - (self.rest_s if self._idle_w is not None else 2 * self.rest_s))
        before = self._idle_w if self._idle_w is not None else self.idle_power_w()
        self._idle_w = None  # should this measurement fail, the next one looks again
        trace, begin = self._under_load(run, estimate_s, load_s)
        windows = trace.windows(self._window_s(trace, begin), self.protocol.min_runs, self.protocol.samples, begin)
        windows = windows or [trace.whole(begin)]
        self._idle_w = self.idle_power_w()
        return EnergyReading(
            counter=self.counter.name,
            counter_period_s=self.period_s,
            samples_j=tuple(window.joules / window.runs for window in windows),
            samples_s=tuple(window.seconds / window.runs for window in windows),
            runs=tuple(window.runs for window in windows),
            idle_before_w=before,
            idle_after_w=self._idle_w,
            quantisation=self._uncertainty_s(trace, begin) / min(window.seconds for window in windows),
        )

    def idle_power_w(self) -> float:
        """Mean power while nothing runs, in watts.

        Raises:
            CounterError: the counter stands still, reads zero, or went backwards.
        """
        timer.synchronise(self.device_type)
        self._sleep(self.protocol.settle_seconds)
        seconds = max(self.protocol.idle_seconds, self.window_s)
        trace = self._at_rest(
            lambda trace, _: len(trace.ticks) > 1 and trace.ticks[-1][0] - trace.ticks[0][0] >= seconds
        )
        whole = trace.whole()
        return whole.joules / whole.seconds

    def _at_rest(self, enough: Callable[[Trace, float], bool]) -> Trace:
        """Asks the counter until it is enough, given the trace and the seconds that have passed."""
        timer.synchronise(self.device_type)
        trace, start = Trace(self.counter, self._clock), self._clock()
        while not enough(trace, self._clock() - start):
            trace.poll()
            trace.refuse_still(start, _STILL_S)
            self._sleep(_POLL_S)
        return trace

    def _under_load(self, run: Run, estimate_s: float, seconds: float) -> tuple[Trace, float]:
        """The trace of running a product without a gap, and the moment from which on it counts."""
        trace, start = Trace(self.counter, self._clock), self._clock()
        begin, runs = start + self.protocol.settle_seconds, 0
        trace.done(0)
        queue = _Queue(self.device_type, trace, self._sleep)
        chunk = max(1, round(queue.chunk_s / max(estimate_s, 1e-9)))
        while not (runs and self._enough(trace, begin, self._clock() - start, runs, seconds)):
            runs += chunk
            queue.run(run, chunk, runs)
            trace.refuse_still(start, max(_STILL_S, 2 * chunk * (self._clock() - start) / runs))
        queue.finish()
        return trace, begin

    def _enough(self, trace: Trace, begin: float, passed: float, runs: int, seconds: float) -> bool:
        """Whether all windows are there, or time is up; a single window may take a little longer than there is."""
        run_s = passed / runs
        if (
            passed < min(seconds, self._load_s(self.window_s, run_s))
            or trace.ticks_between(begin, trace.known_until) < 3
        ):
            return False
        window_s = self._window_s(trace, begin)
        if passed >= self._load_s(window_s, run_s) or passed >= 2 * seconds + self._load_s(window_s, run_s, windows=1):
            return True
        return passed >= seconds and bool(trace.windows(window_s, self.protocol.min_runs, 1, begin))

    def _window_s(self, trace: Trace, begin: float) -> float:
        """How long a window must be, by the calibration and by the trace itself."""
        return max(self.period_s, self._uncertainty_s(trace, begin) / self.protocol.max_quantisation)

    def _uncertainty_s(self, trace: Trace, begin: float) -> float:
        return max(self.uncertainty_s, trace.uncertainty_s(begin))

    def _load_s(self, window_s: float, run_s: float, windows: int | None = None) -> float:
        """How long all windows take together, given the seconds of one and of a product; each may end a period late."""
        window_s = max(window_s, self.protocol.min_runs * run_s) + self.period_s
        return self.protocol.settle_seconds + (windows or self.protocol.samples) * window_s + 2 * self.period_s


class _Queue:
    """Runs chunks of products one right after the other, and asks the counter meanwhile.

    On CUDA the next chunk is handed to the GPU before the one before it is waited for, so that it is never idle.
    """

    def __init__(self, device_type: str, trace: Trace, sleep: Callable[[float], None]) -> None:
        self._cuda, self._trace, self._sleep = device_type == "cuda", trace, sleep
        self._waiting: deque[tuple[torch.cuda.Event, int]] = deque()
        self.chunk_s = _POLL_S * (_POLLS_PER_CHUNK if self._cuda else 1)

    def run(self, run: Run, chunk: int, runs: int) -> None:
        """Runs one chunk; `runs` products are over when it is."""
        for _ in range(chunk):
            run()
        if not self._cuda:
            self._trace.done(runs)
            self._trace.poll()
            return
        event = torch.cuda.Event()
        event.record()
        self._waiting.append((event, runs))
        self._trace.poll()
        if len(self._waiting) > 1:
            self._wait()

    def finish(self) -> None:
        """Waits for all that was started."""
        while self._waiting:
            self._wait()

    def _wait(self) -> None:
        event, runs = self._waiting.popleft()
        while not event.query():
            self._trace.poll()
            self._sleep(_POLL_S)
        self._trace.done(runs)
        self._trace.poll()
