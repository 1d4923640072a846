"""A trace of an energy counter: when it advanced and by how much, and the windows that begin and end where it did.

A counter that advances only every now and then is right at the moments at which it advances. Windows that begin and end
there are off by how exactly those moments are known, not by the whole of the counter's period.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy

from ksmm.measure.energy_counter import Counter, CounterError
from ksmm.measure.energy_moments import (
    Advance,
    intervals_of,
    moments_of_period,
    regular_moments,
    uncertainty_by_joules_s,
)


@dataclass(frozen=True)
class Window:
    """What passed between two advances of the counter.

    Attributes:
        seconds, joules: of it.
        runs: products in it; not an integer, since an advance seldom falls on the end of a product.
    """

    seconds: float
    joules: float
    runs: float

    @property
    def power_w(self) -> float:
        """Mean power, in watts."""
        return self.joules / self.seconds


class Trace:
    """What the counter said whenever it was asked, and when how many products were done.

    Args:
        counter: asked by `poll`.
        clock: seconds from some moment.
        period: seconds between two advances and how uncertain they are, if the counter is known to keep time.

    Raises:
        CounterError: by `poll`, if the counter reads zero or less, or less than before.
    """

    def __init__(self, counter: Counter, clock: Callable[[], float], period: tuple[float, float] | None = None) -> None:
        self.counter, self.clock, self._period = counter, clock, period
        self.advances: list[Advance] = []
        self.slowest_poll_s = 0.0
        """The longest that the counter took to answer."""
        self._last: float | None = None
        self._asked = 0.0
        self._done: list[tuple[float, float]] = []
        self._ticks: tuple[list[tuple[float, float]], float | None] = ([], None)
        self._timed_of = 0

    def poll(self) -> None:
        """Asks the counter and notes it if it advanced."""
        asked = self.clock()
        joules = self.counter.read()
        answered = self.clock()
        self.slowest_poll_s = max(self.slowest_poll_s, answered - asked)
        if joules <= 0:
            raise CounterError(f"the energy counter ({self.counter.name}) reads {joules:g} J")
        if self._last is not None and joules < self._last:
            raise CounterError(
                f"the energy counter ({self.counter.name}) went backwards, from {self._last:.6g} to {joules:.6g} J"
            )
        if self._last is not None and joules > self._last:
            self.advances.append(Advance(self._asked, answered, joules))
        self._last, self._asked = joules, asked

    def done(self, runs: int, moment: float | None = None) -> None:
        """Notes that so many products were over at a moment (now, if none is given), since the trace began."""
        self._done.append((self.clock() if moment is None else moment, float(runs)))

    @property
    def ticks(self) -> list[tuple[float, float]]:
        """Moment and joules of each advance of the counter."""
        return self._timed()[0]

    def _timed(self) -> tuple[list[tuple[float, float]], float | None]:
        """Moment and joules of each advance, and how uncertain the moments are if the counter keeps time, else None.

        It does if equal distances fit what was seen better than the moments at which it was seen fit its joules.
        """
        if self._timed_of != len(self.advances):
            self._timed_of = len(self.advances)
            seen = [(advance.by, advance.joules) for advance in self.advances]
            moments = moments_of_period(self.advances, *self._period) if self._period else None
            moments = moments or regular_moments(self.advances)
            if moments is not None and moments.uncertainty_s < uncertainty_by_joules_s(*intervals_of(seen)):
                joules = [self.advances[place].joules for place in moments.places]
                self._ticks = list(zip(moments.seconds.tolist(), joules, strict=True)), moments.uncertainty_s
            else:
                self._ticks = seen, None
        return self._ticks

    @property
    def regular_period(self) -> tuple[float, float] | None:
        """Seconds between two advances and how uncertain they are, if the counter keeps time."""
        uncertainty_s = self._timed()[1]
        return None if uncertainty_s is None else (self.period_s(), uncertainty_s)

    @property
    def span_s(self) -> float:
        """Seconds from the first advance to the last one."""
        return self.advances[-1].by - self.advances[0].by if self.advances else 0.0

    @property
    def known_until(self) -> float:
        """The moment up to which it is known how many products were over; for ever where none was run."""
        return self._done[-1][0] if self._done else math.inf

    def ticks_between(self, begin: float, end: float) -> int:
        """How often the counter advanced from one moment to another."""
        return sum(begin <= moment <= end for moment, _ in self.ticks)

    def refuse_still(self, start: float, seconds: float) -> None:
        """Gives up on a counter that has not advanced for so long.

        Args:
            start: when it was asked first.
            seconds: how long is too long.

        Raises:
            CounterError: it stands still.
        """
        if self.clock() - max(start, self.advances[-1].by if self.advances else start) > seconds:
            raise CounterError(f"the energy counter ({self.counter.name}) did not advance within {seconds:.3g} s")

    def windows(self, seconds: float, runs: float = 0.0, most: int | None = None, begin: float = 0.0) -> list[Window]:
        """Windows one after the other, each of at least so many seconds and products.

        Args:
            seconds: that each lasts at least.
            runs: products that each holds at least.
            most: how many windows at most.
            begin: the moment before which none begins.
        """
        times, joules, done = self._known(begin)
        windows: list[Window] = []
        start = 0
        for end in range(1, len(times)):
            if most is not None and len(windows) == most:
                break
            if times[end] - times[start] >= seconds and done[end] - done[start] >= runs:
                windows.append(Window(times[end] - times[start], joules[end] - joules[start], done[end] - done[start]))
                start = end
        return windows

    def whole(self, begin: float = 0.0) -> Window:
        """From the first advance after a moment to the last one.

        Raises:
            CounterError: it advanced less than twice.
        """
        times, joules, done = self._known(begin)
        if len(times) < 2:
            raise self._too_few()
        return Window(times[-1] - times[0], joules[-1] - joules[0], done[-1] - done[0])

    def _too_few(self) -> CounterError:
        return CounterError(f"the energy counter ({self.counter.name}) advanced less than twice in the time there was")

    def _known(self, begin: float) -> tuple[list[float], list[float], list[float]]:
        """Time, joules and finished products at each advance from a moment on, linear between the ends of chunks."""
        ticks = [tick for tick in self.ticks if begin <= tick[0] <= self.known_until]
        times, joules = [moment for moment, _ in ticks], [joules for _, joules in ticks]
        if not self._done:
            return times, joules, [0.0] * len(times)
        moments, runs = zip(*self._done, strict=True)
        return times, joules, numpy.interp(times, moments, runs).tolist()

    def intervals(self, begin: float = 0.0) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Seconds and joules between neighbouring advances from a moment on."""
        return intervals_of([tick for tick in self.ticks if begin <= tick[0] <= self.known_until])

    def period_s(self, begin: float = 0.0) -> float:
        """The median of the seconds between two advances.

        Raises:
            CounterError: it advanced less than twice.
        """
        seconds, _ = self.intervals(begin)
        if len(seconds) == 0:
            raise self._too_few()
        return float(numpy.median(seconds))

    def periods_of(self, seconds: float) -> int:
        """How many times `uncertainty_s` a window of that length may be wrong: once, unless the counter keeps time."""
        return 1 if self._timed()[1] is None else max(1, round(seconds / self.period_s()))

    def uncertainty_s(self, begin: float = 0.0) -> float:
        """How wrong the length of a window can be, as far as the trace shows.

        Of a counter that keeps time, that is how uncertain its period is, for each period of a window. Of another one,
        each interval's joules over the mean power say how long it was by the counter's own account; the largest
        difference from what the clock says is the uncertainty. It has in it how late an advance is noticed, how
        irregularly the counter is brought up to date, and how unsteady power was.

        Raises:
            CounterError: the counter advanced less than twice.
        """
        seconds, joules = self.intervals(begin)
        self.period_s(begin)
        uncertainty_s = self._timed()[1]
        return uncertainty_by_joules_s(seconds, joules) if uncertainty_s is None else uncertainty_s
