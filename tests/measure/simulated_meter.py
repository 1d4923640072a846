"""A counter on this machine's clock, and a protocol that takes no time, for the tests of energies."""

import time

from ksmm.measure.energy_protocol import EnergyProtocol

IDLE_W, LOAD_W = 20.0, 120.0
QUICK_ENERGY = EnergyProtocol(
    samples=3, min_runs=4, max_quantisation=0.5, settle_seconds=0.005, idle_seconds=0.02, seconds_per_pattern=2.0
)


class Wattmeter:
    """A counter that advances every 2 ms by what a real clock says, at IDLE_W, or at LOAD_W while `busy`."""

    def __init__(self):
        self.joules, self.before, self.busy = 100.0, time.perf_counter(), False
        self.shown, self.next = self.joules, self.before

    def read(self):
        now = time.perf_counter()
        self.joules += (now - self.before) * (LOAD_W if self.busy else IDLE_W)
        self.before = now
        if now >= self.next:
            self.shown, self.next = self.joules, now + 2e-3
        return self.shown
