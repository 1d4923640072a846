"""A device with a known power trace and an energy counter as an H200 has one, on a clock of its own."""

from __future__ import annotations

import random
from collections.abc import Callable

from ksmm.measure.energy_counter import Counter


class SimulatedDevice:
    """Draws `load_w` while a product runs and `idle_w` otherwise; its counter advances every now and then.

    Args:
        product_s: seconds of one product.
        idle_w: watts at rest.
        load_w: watts under load, at a moment.
        period_s: the shortest and the longest time between two advances of the counter.
        late_s: how much later than its own account an advance may be seen, at most.
        unit_j: what the counter counts in.
        poll_s: the shortest and the longest time that the counter takes to answer.
    """

    def __init__(
        self,
        product_s: float = 0.002,
        idle_w: float = 80.0,
        load_w: Callable[[float], float] = lambda moment: 640.0,
        period_s: tuple[float, float] = (0.09, 0.109),
        late_s: float = 0.0,
        unit_j: float = 1e-3,
        poll_s: tuple[float, float] = (0.0, 0.0),
        seed: int = 0,
    ) -> None:
        self.now, self.joules = 100.0, 5000.0
        self.product_s, self.idle_w, self.load_w = product_s, idle_w, load_w
        self._generator = random.Random(seed)
        self._period_s, self._late_s, self._unit_j, self._poll_s = period_s, late_s, unit_j, poll_s
        self._shown, self._coming = self.joules, []
        self._next = self.now + self._generator.uniform(*period_s)
        self.products, self.product_joules = 0, 0.0
        self.counter = Counter("simulated", self.read)

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self._pass(seconds, lambda moment: self.idle_w)

    def run(self) -> None:
        before = self.joules
        self._pass(self.product_s, self.load_w)
        self.products += 1
        self.product_joules += self.joules - before

    def answers_within(self, shortest_s: float, longest_s: float) -> None:
        """From now on the counter takes so long to answer."""
        self._poll_s = shortest_s, longest_s

    def read(self) -> float:
        shortest, longest = self._poll_s  # most answers come soon, few late
        takes_s = shortest + (longest - shortest) * self._generator.random() ** 8 if longest else 0.0
        before = self._generator.uniform(0, takes_s)
        self.sleep(before)
        while self._coming and self._coming[0][0] <= self.now:
            self._shown = self._coming.pop(0)[1]
        self.sleep(takes_s - before)
        return self._shown // self._unit_j * self._unit_j

    def _pass(self, seconds: float, watts: Callable[[float], float]) -> None:
        """In steps of at most a millisecond, in which power is constant."""
        end = self.now + seconds
        while self.now < end - 1e-12:
            step = min(1e-3, end - self.now, max(self._next - self.now, 1e-9))
            self.joules += watts(self.now) * step
            self.now += step
            if self.now >= self._next - 1e-12:
                self._coming.append((self.now + self._generator.uniform(0, self._late_s), self.joules))
                self._next = self.now + self._generator.uniform(*self._period_s)


class SimulatedGpu(SimulatedDevice):
    """The same, whose products run behind the host's back: a call of `run` returns after `launch_s`.

    But no more than `queue_depth` products are behind its back: a launch waits until there is room.
    """

    launch_s = 5e-6
    queue_depth = 10**9

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self.busy_until, self.idle_s = self.now, 0.0
        loaded = self.load_w
        self.load_w = lambda moment: loaded(moment) if moment < self.busy_until else self.idle_w

    def sleep(self, seconds: float) -> None:
        self._pass(seconds, self.load_w)

    def run(self) -> None:
        if self.products:  # time that the GPU waits for the next product
            self.idle_s += max(0.0, self.now - self.busy_until)
        self.busy_until = max(self.now, self.busy_until) + self.product_s
        self.products += 1
        self.sleep(max(self.launch_s, self.busy_until - self.now - self.queue_depth * self.product_s))

    def synchronize(self) -> None:
        """What stands for torch.cuda.synchronize."""
        self.sleep(max(0.0, self.busy_until - self.now))

    def event(self, enable_timing: bool = False) -> SimulatedEvent:
        """What stands for torch.cuda.Event."""
        return SimulatedEvent(self)


class SimulatedEvent:
    """An event of a SimulatedGpu."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self._gpu, self._end = gpu, 0.0

    def record(self) -> None:
        self._end = max(self._gpu.now, self._gpu.busy_until)

    def query(self) -> bool:
        self._gpu.sleep(1e-6)
        return self._gpu.now >= self._end

    def elapsed_time(self, later: SimulatedEvent) -> float:
        return 1e3 * (later._end - self._end)


class Replayed:
    """What stands for a CUDA graph on a simulated GPU: all its products with a single launch."""

    def __init__(self, gpu: SimulatedGpu, products: int) -> None:
        self._gpu, self._products = gpu, products

    def replay(self) -> None:
        launch_s, self._gpu.launch_s = self._gpu.launch_s, 0.0
        for _ in range(self._products):
            self._gpu.run()
        self._gpu.launch_s = launch_s
        self._gpu.sleep(launch_s)
