"""What the tuner measures: a list of problems, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ksmm.names import dtype_name
from ksmm.patterns import Pattern
from ksmm.problem import Problem, check_layout, parse_dtype
from ksmm.tuning.entry import PRECISIONS


@dataclass(frozen=True)
class Task:
    """A problem, and in which precision it is to be tuned."""

    problem: Problem
    precision: str

    def __str__(self) -> str:
        problem = self.problem
        parts = (problem.pattern, dtype_name(problem.dtype), problem.layout, f"batch {problem.batch_size}")
        return " ".join(map(str, (*parts, self.precision))).strip()


def list_tasks(
    patterns: Sequence[Pattern],
    device_type: str,
    batch_sizes: Sequence[int],
    dtypes: Sequence[str],
    layouts: Sequence[str],
    precisions: Sequence[str] = PRECISIONS,
) -> list[Task]:
    """Every problem to be tuned, in order.

    Args:
        patterns: at least one.
        device_type: "cpu" or "cuda".
        batch_sizes: at least one, each at least 1.
        dtypes: by name, at least one.
        layouts: at least one.
        precisions: of float32 on CUDA, where there are several; what else there is has one.

    Raises:
        ValueError: an unknown name, an empty list, or a batch size below 1.
    """
    lists = {"patterns": patterns, "batch sizes": batch_sizes, "dtypes": dtypes, "layouts": layouts}
    for name, entries in {**lists, "precisions": precisions}.items():
        if not entries:
            raise ValueError(f"the list of {name} is empty; it needs at least one entry")
    for precision in precisions:
        if precision not in PRECISIONS:
            raise ValueError(f"unknown precision {precision!r}; choose among {', '.join(PRECISIONS)}")
    if min(batch_sizes) < 1:
        raise ValueError(f"batch size is {min(batch_sizes)}; it must be at least 1 to be timed")
    return [
        Task(Problem(pattern, batch_size, parse_dtype(dtype), check_layout(layout), device_type), precision)
        for pattern in patterns
        for dtype in dtypes
        for batch_size in batch_sizes
        for layout in layouts
        for precision in (precisions if device_type == "cuda" and dtype == "float32" else ("",))
    ]
