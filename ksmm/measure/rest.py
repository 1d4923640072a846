"""Rest before a timing, for a GPU that its power limit would slow down.

An H200 may draw 700 W. Products have been seen to draw 733 in the median, and 777 at most, for 0.8 s, and then to be
slowed down (docs/energy.md): those that are timed after others of that kind find the clock at 1.4 instead of 2.0 GHz.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from ksmm.measure import nvidia

RESTED = 0.75
"""The share of its power limit below which a GPU has rested: if the limit is on the mean of a second, as 0.8 s of grace
look like, it can then draw a twentieth more than the limit for so long."""

_SLOWED = 0x04 | 0x08 | 0x20 | 0x40 | 0x80
"""NVML's clocks-event reasons that are of power or heat: software power cap, hardware slowdown, software and hardware
thermal slowdown, hardware power brake."""

_LOOK_S = 0.05


def rest(
    most_s: float,
    state: Callable[[], Mapping[str, float]] = nvidia.device_state,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Waits until the GPU draws little enough and is not slowed down any more, but not for longer than `most_s`.

    Args:
        most_s: seconds; 0 for no rest.
        state: as `nvidia.device_state`; a GPU of which nothing is known does not rest.
        clock: of the host, in seconds; a test gives its own.
        sleep: likewise.

    Returns:
        The seconds that it rested.
    """
    start = clock()
    while clock() - start < most_s and _is_strained(state()):
        sleep(_LOOK_S)
    return clock() - start


def _is_strained(state: Mapping[str, float]) -> bool:
    slowed = int(state.get("throttle_reasons", 0)) & _SLOWED != 0
    return slowed or state.get("power_w", 0.0) > RESTED * state.get("power_limit_w", float("inf"))
