"""Every implementation of the multiplication, each in a file of this folder, found by being there."""

from __future__ import annotations

import importlib
import pkgutil

from ksmm.implementations.base import REGISTRY, Implementation, Packed, register
from ksmm.problem import Problem

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def preference(problem: Problem) -> tuple[str, ...]:
    """What implementation="auto" tries, in this order; bmm takes every problem.

    The kernel first, but for 16-bit numbers in batch_last on CUDA, where bmm_strided took half its time in the median
    of the published run (Table 8).
    """
    if problem.device_type == "cuda" and problem.dtype.itemsize == 2 and problem.layout == "batch_last":
        return ("bmm_strided", "kernel", "bmm")
    return ("kernel", "bmm_strided", "bmm")


def implementations() -> dict[str, Implementation]:
    """The registered implementations by name, in alphabetical order.

    >>> sorted(implementations()) == list(implementations())
    True
    """
    return dict(sorted(REGISTRY.items()))


def get_implementation(name: str) -> Implementation:
    """The implementation of that name.

    Raises:
        ValueError: there is none.
    """
    if name not in REGISTRY:
        raise ValueError(f"unknown implementation {name!r}; choose one of {', '.join(implementations())} or auto")
    return REGISTRY[name]


__all__ = ["Implementation", "Packed", "get_implementation", "implementations", "preference", "register"]
