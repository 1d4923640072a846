"""Every implementation of the multiplication, each in a file of this folder, found by being there."""

from __future__ import annotations

import importlib
import pkgutil

import torch

from ksmm.implementations.base import REGISTRY, Implementation, Packed, register
from ksmm.problem import Problem

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def preference(problem: Problem) -> tuple[str, ...]:
    """What implementation="auto" tries, in this order, on a problem that nobody tuned; bmm takes every problem.

    The kernel first, but for 16-bit numbers in batch_last on CUDA devices other than Hopper: what the kernel has for
    all of them took twice the time of bmm_strided there, in the median.
    """
    sixteen_bits_last = problem.dtype.itemsize == 2 and problem.layout == "batch_last"
    if problem.device_type == "cuda" and sixteen_bits_last and not _is_hopper():
        return ("bmm_strided", "kernel", "bmm")
    return ("kernel", "bmm_strided", "bmm")


def _is_hopper() -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)


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
        raise ValueError(f"unknown implementation {name!r}; choose one of {', '.join(implementations())}")
    return REGISTRY[name]


def check_implementation(name: str) -> str:
    """Returns the name of an implementation, or "auto".

    Raises:
        ValueError: it is neither.
        TypeError: it is no string.
    """
    allowed = f"{', '.join(implementations())} or auto"
    if not isinstance(name, str):
        raise TypeError(f"implementation is {name!r} ({type(name).__name__}); it must be a name: {allowed}")
    if name != "auto" and name not in REGISTRY:
        raise ValueError(f"unknown implementation {name!r}; choose one of {allowed}")
    return name


__all__ = [
    "Implementation",
    "Packed",
    "check_implementation",
    "get_implementation",
    "implementations",
    "preference",
    "register",
]
