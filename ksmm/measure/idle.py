"""A GPU that somebody else computes on: noticed before measuring, waited for, and recorded if it does not end.

A lock keeps the jobs of this project apart; nothing keeps off the others. What counts is that something computes (the
utilisation that NVML tells), not that a process holds a context: a notebook left open costs memory, but no time.
"""

from __future__ import annotations

import logging
import time

from ksmm.measure import nvidia
from ksmm.measure.lock import GIVEN_BY_SLURM

logger = logging.getLogger(__name__)

BUSY_PERCENT = 5.0
"""Utilisation from which a GPU counts as busy. An idle one shows 0; a driver's housekeeping shows 1 or 2 at times."""

_POLL_S = 1.0
_REMIND_S = 60.0


def wait_until_idle(device: str, max_wait_s: float) -> dict[str, float]:
    """Waits until nothing computes on a GPU; to be called with its lock held, before anything is computed on it.

    Args:
        device: what device_lock gave: the name of a GPU, GIVEN_BY_SLURM, or "cpu", which is never waited for (the load
            of the host is in its record).
        max_wait_s: for how many seconds at most.

    Returns:
        waited_s; and where NVML tells it, utilisation_percent and other_processes (with a compute context) when the
        waiting ended. Empty where NVML cannot tell whether the GPU is busy.
    """
    gpu = nvidia.current_gpu() if device == GIVEN_BY_SLURM else device
    if device == "cpu" or gpu is None:
        return {}
    start, reminded = time.monotonic(), None
    while True:
        utilisation, others = nvidia.utilisation_percent(gpu), nvidia.other_processes(gpu)
        waited = time.monotonic() - start
        if utilisation is None:
            return {}
        if utilisation < BUSY_PERCENT or waited >= max_wait_s:
            break
        if reminded is None or waited - reminded > _REMIND_S:
            reminded = waited
            logger.info("waiting for %s, which computes for somebody else (%.0f %% of the time)", gpu, utilisation)
        time.sleep(min(_POLL_S, max(0.0, max_wait_s - waited)))
    if utilisation >= BUSY_PERCENT:
        logger.warning("%s still computes for somebody else after %.0f s; measuring all the same", gpu, waited)
    found = {"waited_s": round(waited, 1), "utilisation_percent": utilisation, "other_processes": others}
    return {name: float(value) for name, value in found.items() if value is not None}


def is_busy(found: dict[str, float]) -> bool:
    """Whether what wait_until_idle returned says that somebody else computed on the GPU to the end."""
    return found.get("utilisation_percent", 0.0) >= BUSY_PERCENT
