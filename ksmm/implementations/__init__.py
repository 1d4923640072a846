"""Every implementation of the multiplication, each in a file of this folder, found by being there."""

from __future__ import annotations

import importlib
import pkgutil

from ksmm.implementations.base import REGISTRY, Implementation, Packed, register

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

PREFERENCE = ("kernel", "bmm_strided", "bmm")
"""What implementation="auto" tries, in this order; bmm takes every problem."""


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


__all__ = ["PREFERENCE", "Implementation", "Packed", "get_implementation", "implementations", "register"]
