"""CUDA architectures, such as "80" and "90a": on which devices code for them runs."""

from __future__ import annotations

from collections.abc import Iterable

import torch

HOPPER = "90a"
"""Compute capability 9.0 with its own instructions, which csrc/cuda/hopper is written in."""

NOT_AT_ALL, PORTABLY, BY_ITS_OWN_CODE = range(3)


def suitability(architectures: Iterable[str], capability: tuple[int, int]) -> int:
    """How code for some architectures runs on a device.

    Machine code runs on the same major version from its minor version on (with an architecture's own instructions, on
    that one alone); the newest architecture's PTX also on everything newer.

    Args:
        architectures: what a library is compiled for.
        capability: the device's compute capability, (major, minor).

    Returns:
        NOT_AT_ALL, PORTABLY, or BY_ITS_OWN_CODE: with machine code of its version; for 9.0 also with its instructions.

    >>> suitability(["80", "90"], (9, 0)), suitability(["80", "90a"], (9, 0)), suitability(["90a"], (8, 0))
    (1, 2, 0)
    """
    built = [((*divmod(int(name.rstrip("af")), 10),), name.isdigit(), name) for name in architectures]
    own = [name for version, _, name in built if version == capability]
    if HOPPER in own or (own and capability != (9, 0)):
        return BY_ITS_OWN_CODE
    major, minor = capability
    if any(portable and version[0] == major and version[1] <= minor for version, portable, _ in built):
        return PORTABLY
    newest, portable, _ = max(built, default=((0, 0), False, ""))
    return PORTABLY if portable and newest <= capability else NOT_AT_ALL


def suitability_here(architectures: Iterable[str]) -> int:
    """As `suitability`, on the least suited of the devices present; initialises CUDA.

    BY_ITS_OWN_CODE without any, and where they cannot be asked: in a process that was forked from one that uses CUDA.
    """
    names = list(architectures)
    try:
        present = [torch.cuda.get_device_capability(device) for device in range(torch.cuda.device_count())]
    except RuntimeError:
        return BY_ITS_OWN_CODE
    return min((suitability(names, capability) for capability in present), default=BY_ITS_OWN_CODE)
