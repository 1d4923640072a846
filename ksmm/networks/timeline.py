"""Whose the time of a device is where kernels overlap on its timeline."""

from __future__ import annotations

import math
from collections.abc import Iterable


def kernel_times(runs: Iterable[tuple[str, float, float]]) -> dict[str, tuple[int, float]]:
    """How often each kernel ran, and the time that is its own.

    A kernel that was launched with programmatic dependent launch begins while the one before it ends, and one on a
    second stream runs beside others: durations count such time twice. Here a run of a kernel has only the time in
    which none that began before it runs: from its start, or from the latest end so far if that is later, to its end.
    So the times add up to that in which the device runs anything, which is never more than the whole.

    Args:
        runs: name, start and end of every run of a kernel, in any order.

    Returns:
        Name -> runs, and time in the unit of the starts and ends; 0 for a kernel that ran only while others did.
    """
    found: dict[str, tuple[int, float]] = {}
    latest_end = -math.inf
    for name, start, end in sorted(runs, key=lambda run: run[1:]):
        calls, total = found.get(name, (0, 0.0))
        found[name] = calls + 1, total + max(0.0, end - max(start, latest_end))
        latest_end = max(latest_end, end)
    return found
