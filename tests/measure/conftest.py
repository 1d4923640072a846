"""Fixtures of the measuring tests: planted implementations, a quick protocol, locks of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
import torch

from ksmm.implementations.base import REGISTRY, Implementation, Packed
from ksmm.measure import energy, timer
from ksmm.measure.measurement import Measurement
from ksmm.measure.protocol import Protocol
from ksmm.problem import Problem
from ksmm.reference import pattern_of, reference_matmul

QUICK = Protocol(min_samples=2, max_samples=3, runs_per_sample=2, max_seconds=0.03, max_seconds_per_run=30.0)
"""Its limit is one that no product here reaches, however busy the machine."""


@pytest.fixture
def quick() -> Protocol:
    return QUICK


class Clock:
    """Time that passes only where a product says so: no machine is too busy for tests of timing."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that products are timed with."""
    own = Clock()
    monkeypatch.setattr(timer, "clock", own)
    return own


def exact(packed: Packed, x: torch.Tensor) -> torch.Tensor:
    """The right product, in the dtype of x."""
    return reference_matmul(packed.data, x, packed.layout).to(x.dtype)


def no_time(measurement: Measurement) -> bool:
    """Whether a measurement has no time, and can be written."""
    values = measurement.to_dict()
    json.dumps(values, allow_nan=False)
    return (values["samples_s"], values["median_s"], values["iqr_s"], values["runs_per_sample"]) == ([], None, None, 0)


class Planted(Implementation):
    """Multiplies by a given function."""

    def __init__(self, name: str, matmul: Callable, supports: Callable[[Problem], str | None]) -> None:
        self.name = name
        self._matmul = matmul
        self._supports = supports

    def supports(self, problem: Problem) -> str | None:
        return self._supports(problem)

    def pack(self, weight: torch.Tensor, layout: str) -> Packed:
        return Packed(pattern_of(weight), layout, weight)

    def matmul(self, packed: Packed, x: torch.Tensor) -> torch.Tensor:
        return self._matmul(packed, x)


@pytest.fixture
def plant() -> Iterator[Callable[..., Planted]]:
    """Registers an implementation for the length of a test: plant(name, matmul=exact, supports=...)."""
    names = []

    def register(name: str, matmul: Callable = exact, supports: Callable = lambda problem: None) -> Planted:
        REGISTRY[name] = Planted(name, matmul, supports)
        names.append(name)
        return REGISTRY[name]

    yield register
    for name in names:
        del REGISTRY[name]


@pytest.fixture
def counter(monkeypatch):
    """Both studies read this instead of the machine's own, without warming anything up for long."""
    monkeypatch.setattr(energy, "_WARM_UP_S", 0.01)

    def use(counter):
        def opened(device_type):
            if isinstance(counter, Exception):
                raise counter
            return counter

        monkeypatch.setattr(energy, "open_counter", opened)

    return use
