"""The load while energy is measured: products one right after the other, and what keeps a GPU from waiting for them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import torch

from ksmm.measure import timer
from ksmm.measure.energy_trace import Trace

Run = Callable[[], object]

POLL_S = 1e-3
"""Seconds between two questions to the counter while there is nothing else to do."""

_POLLS_PER_CHUNK = 5
"""Products are started in chunks that take about so many polls: between two of them the counter is asked."""

_ANSWERS_PER_CHUNK = 2
"""Chunks take so many of the counter's slowest answers: the GPU has a chunk to do while one is waited for. Longer ones
keep the host from asking, as a launch waits where CUDA's queue of about 1,000 launches is full."""

_LAUNCHES = 20
"""Products launched to see how long that takes: far fewer than CUDA queues before a launch has to wait."""

_WARM_UP_SIZE = {"cuda": 4096, "cpu": 512}
"""Rows and columns of the matrices that warm a device up."""


def warm_up(device_type: str, seconds: float) -> None:
    """Keeps the device busy for so long, with dense products in float32."""
    size = _WARM_UP_SIZE[device_type]
    matrix = torch.full((size, size), 1e-3, device=device_type)
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        torch.matmul(matrix, matrix)
        timer.synchronise(device_type)


def launch_share(run: Run, clock: Callable[[], float]) -> float:
    """The share of the time of some products on a GPU that the host is occupied with launching them.

    Near 1 the GPU is done with each before the next one is launched: it waits in between.
    """
    timer.synchronise("cuda")
    start = clock()
    for _ in range(_LAUNCHES):
        run()
    launched_s = clock() - start
    event = torch.cuda.Event()
    event.record()
    while not event.query():
        pass
    return launched_s / (clock() - start)


class Queue:
    """Runs chunks of products one right after the other, and asks the counter meanwhile.

    On CUDA the next chunk is handed to the GPU before the one before it is waited for, so that it is never idle; each
    is long enough that the counter can be asked twice in it. When a chunk was over the GPU says.

    Args:
        device_type: "cpu" or "cuda".
        trace: that is told what is done, and asks.
        sleep: of the host.
        slowest_poll_s: the longest that the counter takes to answer.
    """

    def __init__(
        self, device_type: str, trace: Trace, sleep: Callable[[float], None], slowest_poll_s: float = 0.0
    ) -> None:
        self._cuda, self._trace, self._sleep = device_type == "cuda", trace, sleep
        self._waiting: deque[tuple[torch.cuda.Event, int]] = deque()
        self.chunk_s = max(POLL_S * _POLLS_PER_CHUNK, _ANSWERS_PER_CHUNK * slowest_poll_s) if self._cuda else POLL_S
        self.waited = False
        """Whether the GPU had nothing to do before the last chunk but one."""
        if self._cuda:
            self._begin = torch.cuda.Event(enable_timing=True)
            self._begin.record()
            while not self._begin.query():
                pass
            self._began = trace.clock()

    def run(self, run: Run, chunk: int, runs: int) -> None:
        """Runs one chunk; `runs` products are over when it is."""
        self.waited = bool(self._waiting) and self._waiting[-1][0].query()
        for _ in range(chunk):
            run()
        if not self._cuda:
            self._trace.done(runs)
            self._trace.poll()
            return
        event = torch.cuda.Event(enable_timing=True)
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
            self._sleep(POLL_S)
        self._trace.done(runs, self._began + self._begin.elapsed_time(event) * 1e-3)
