"""How the time of a pattern is shared among its measurements, so that what one does not need another can have."""

from __future__ import annotations

from collections.abc import Sequence

from ksmm.implementations import Implementation
from ksmm.measure.tasks import Task
from ksmm.patterns import Pattern
from ksmm.problem import Problem


class Shares:
    """What each measurement may take of its pattern's time, given what those before it took.

    Args:
        seconds_per_pattern: that all measurements of a pattern take together.
        tasks: all measurements of the job, in the order in which they are made.
    """

    def __init__(self, seconds_per_pattern: float, tasks: Sequence[Task]) -> None:
        self._whole = seconds_per_pattern
        self._left: dict[Pattern, float] = {}
        self._order: dict[Pattern, list[tuple[Problem, str]]] = {}
        self._next: dict[Pattern, int] = {}
        for task in tasks:
            if task.implementation.supports(task.problem) is None:
                entry = (task.problem, task.implementation.name)
                self._order.setdefault(task.problem.pattern, []).append(entry)

    def seconds(self, problem: Problem, implementation: Implementation, usual_s: float) -> float:
        """Seconds for a measurement: an equal share of what is left, or more if the others are likely not to need it.

        Those that an earlier process made, which this one does not see, are taken to have used their shares.

        Args:
            problem: that is computed.
            implementation: that is measured on it.
            usual_s: what most measurements need.
        """
        pattern, entry = problem.pattern, (problem, implementation.name)
        order = self._order.get(pattern, [])
        left = self._left.get(pattern, self._whole)
        if entry not in order:
            return left
        before, place = self._next.get(pattern, 0), order.index(entry)
        share = left / max(1, len(order) - before)
        others = len(order) - place - 1
        left = share * (others + 1)
        self._left[pattern], self._next[pattern] = left, place + 1
        return max(share, left - others * usual_s)

    def spend(self, problem: Problem, seconds: float) -> None:
        """Notes what a measurement took."""
        self._left[problem.pattern] = max(0.0, self._left.get(problem.pattern, self._whole) - seconds)
