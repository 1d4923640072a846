"""What a timing job measures: a list of patterns × dtypes × layouts × implementations, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ksmm.implementations import Implementation, get_implementation
from ksmm.names import dtype_name
from ksmm.patterns import Pattern
from ksmm.problem import Problem, check_layout, parse_dtype


@dataclass(frozen=True)
class Task:
    """One measurement to be made."""

    problem: Problem
    implementation: Implementation
    part: str

    def __str__(self) -> str:
        part = "" if self.part == "whole" else f" ({self.part})"
        problem = self.problem
        return f"{problem.pattern} {dtype_name(problem.dtype)} {problem.layout} {self.implementation.name}{part}"


def list_tasks(
    patterns: Sequence[Pattern],
    device_type: str,
    batch_size: int,
    dtypes: Sequence[str],
    layouts: Sequence[str],
    implementations: Sequence[str],
) -> list[Task]:
    """Every measurement of a job, in the order in which they are made.

    Raises:
        ValueError: an unknown name, an empty list, or a batch size below 1.
    """
    lists = {"patterns": patterns, "dtypes": dtypes, "layouts": layouts, "implementations": implementations}
    for name, entries in lists.items():
        if not entries:
            raise ValueError(f"the list of {name} is empty; it needs at least one entry")
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"unknown device {device_type!r}; choose cpu or cuda")
    if batch_size < 1:
        raise ValueError(f"batch size is {batch_size}; it must be at least 1 to be timed")
    chosen = [get_implementation(name) for name in implementations]
    return [
        Task(Problem(pattern, batch_size, dtype, check_layout(layout), device_type), implementation, part)
        for pattern in patterns
        for dtype in map(parse_dtype, dtypes)
        for layout in layouts
        for implementation in chosen
        for part in parts_of(implementation)
    ]


def parts_of(implementation: Implementation) -> tuple[str, ...]:
    """What is timed of an implementation: the whole, and line 2 of Algorithm 1 where that is a step of its own."""
    steps = ("permute", "multiply", "permute_back")
    return ("whole", "multiplication") if all(hasattr(implementation, step) for step in steps) else ("whole",)
