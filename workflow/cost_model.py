"""How long a job may take, in minutes: what a scheduler is asked for, before anything is measured.

Too long costs time in a queue; too short costs a retry, which asks for more and measures only what is missing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence

MOST_MINUTES_VARIABLE = "KSMM_MOST_MINUTES"
"""The environment variable that says what a job may ask for at most; its retries go on with what it does not finish."""

START_S = 90.0
"""A scheduler's step, importing PyTorch and finding the device, on a slow file system."""

SET_UP_S = 2.0
"""Per number: operands, the check against float64, trials, a compiled routine."""

NETWORK_SET_UP_S = 20.0
"""Per measurement of a network: its random weights, the float64 equivalent, and at times a compiler."""

NETWORK_PASS_S = 0.1
"""Of a network; the largest take longer, most parts a hundredth of it."""

_OPERATIONS_PER_S = {
    "cuda": {"dense": 5e12, "sparse": 6e10, "bsr": 2e11, "": 7e11},
    "cpu": {"dense": 5e9, "": 1e9},
}
"""Rate of one product, by implementation, "" for all others: a quarter of the slowest that an H200 showed
(measurements/nvidia-h200/time.csv; lazylinop's shortest, of 0.2 ms, aside), and of the slowest on two processors."""

BUILD_MINUTES = {"cuda": 60, "cpu": 10}
"""The CUDA kernel takes a compiler about 20 minutes of one processor for each architecture."""


def timing_minutes(
    patterns: Sequence[str],
    device_type: str,
    batch_size: int,
    dtypes: Sequence[str],
    layouts: Sequence[str],
    implementations: Sequence[str],
    protocol: dict[str, float],
    attempt: int = 1,
) -> int:
    """Minutes for a timing job: numbers × the time that the protocol lets each take, times the attempt.

    Args:
        patterns: as "a,b,c,d".
        device_type: "cpu" or "cuda".
        batch_size: B.
        dtypes: by name.
        layouts: by name.
        implementations: by name; those with a step that is measured by itself, too, count twice.
        protocol: the config's section.
        attempt: 1 at first, one more at each retry.
    """
    from ksmm.implementations import get_implementation  # PyTorch, which a redraw of published records does without
    from ksmm.measure.tasks import parts_of

    parts = [name for name in implementations for _ in parts_of(get_implementation(name))]
    numbers_s = sum(
        SET_UP_S + number_seconds(name, pattern, batch_size, device_type, protocol)
        for pattern in patterns
        for name in parts
    )
    return _minutes((START_S + numbers_s * len(dtypes) * len(layouts)) * attempt)


def number_seconds(
    implementation: str, pattern: str, batch_size: int, device_type: str, protocol: dict[str, float]
) -> float:
    """Seconds that timing one number may take: those of all its products, but no more than protocol.max_seconds.

    A product has 2·B·abcd operations; that of `dense`, which multiplies the zeros too, 2·B·(abd)·(acd).
    """
    a, b, c, d = (int(number) for number in pattern.split(","))
    operations = 2.0 * batch_size * a * b * c * d * (a * d if implementation == "dense" else 1)
    rates = _OPERATIONS_PER_S[device_type]
    product_s = operations / rates.get(implementation, rates[""])
    return min(protocol["max_seconds"], protocol["max_samples"] * protocol["runs_per_sample"] * product_s)


def energy_minutes(patterns: Sequence[str], numbers: int, seconds_per_pattern: float, attempt: int = 1) -> int:
    """Minutes for an energy job: what its patterns may take, and for each number as much again as to set it up.

    Args:
        patterns: as "a,b,c,d".
        numbers: measurements of one pattern.
        seconds_per_pattern: of the config's section energy.protocol.
        attempt: 1 at first, one more at each retry.
    """
    return _minutes((START_S + len(patterns) * (1.5 * seconds_per_pattern + 5 * SET_UP_S * numbers)) * attempt)


def network_minutes(entries: int, protocol: dict[str, float], attempt: int = 1) -> int:
    """Minutes for measuring a subject of the study networks: to build and check each network, and to time it.

    Args:
        entries: measurements.
        protocol: of the config's section networks.
        attempt: 1 at first, one more at each retry.
    """
    timing_s = min(protocol["max_seconds"], protocol["max_samples"] * protocol["runs_per_sample"] * NETWORK_PASS_S)
    return _minutes((START_S + entries * (NETWORK_SET_UP_S + timing_s)) * attempt)


def profile_minutes(attempt: int = 1) -> int:
    """Minutes for profiling the networks, some forward passes of each."""
    return _minutes(1800 * attempt)


def ceilings_minutes(dtypes: Iterable[str], attempt: int = 1, seconds: float = 1.0) -> int:
    """Minutes for the ceilings of a device: a copy, and one matrix product for each dtype, tried for so many seconds.

    A product is tried for a quarter of them at each of up to six sizes.
    """
    return _minutes((START_S + (60 + 2 * seconds) * (1 + len(list(dtypes)))) * attempt)


def tuning_minutes(max_seconds: float, protocol: dict[str, float], attempt: int = 1) -> int:
    """Minutes for tuning: no problem is begun after max_seconds, and the last one is finished."""
    return _minutes((START_S + 1.2 * max_seconds + 20 * protocol["max_seconds"]) * attempt)


def build_minutes(device_type: str, attempt: int = 1) -> int:
    """Minutes for compiling the kernel library."""
    return _minutes(60 * BUILD_MINUTES.get(device_type, 10) * attempt)


def at_most(minutes: int) -> int:
    """These minutes, or as many as a job may ask for (MOST_MINUTES_VARIABLE) where that is less."""
    return min(minutes, int(os.environ.get(MOST_MINUTES_VARIABLE, minutes)))


def member_minutes(minutes: int, members: int, cores: int) -> int:
    """Minutes of a member of a group of short jobs, which ask for the sum of what does not run side by side.

    Args:
        minutes: what one asks for by itself.
        members: of the group.
        cores: how many of them run side by side.

    Returns:
        As much, or less where all of them would ask for more than a job may; at least 1.
    """
    rounds = max(1, math.ceil(members / cores))  # one figure may be asked for that is none of the run's
    return max(1, min(minutes, at_most(minutes * rounds) // rounds))


def _minutes(seconds: float) -> int:
    return at_most(math.ceil(seconds / 60))
