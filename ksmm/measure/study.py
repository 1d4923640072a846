"""What a job measures of each task: its time, unless it is told otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from ksmm.measure.bench import Bench
from ksmm.measure.check import Reference
from ksmm.measure.measurement import PARTS
from ksmm.measure.protocol import Protocol
from ksmm.measure.tasks import Task
from ksmm.problem import Problem


class Study:
    """The timing of products; a subclass measures something else.

    Args:
        protocol: see Protocol.
    """

    parts: tuple[str, ...] = PARTS
    """Which parts of an implementation are measured."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol

    def prepare(self, device_type: str, tasks: Sequence[Task]) -> None:
        """Called once the device is locked, before the first measurement."""

    def bench(self, problem: Problem, reference: Reference) -> Bench:
        """What measures implementations on a problem."""
        return Bench(problem, self.protocol, reference)

    def protocol_values(self) -> dict[str, object]:
        """The parameters by name, as they are kept in a record; what was measured with others is measured again."""
        return self.protocol.to_dict()

    @property
    def extra_seconds(self) -> float:
        """What a measurement may take beyond checking and timing, before it is given up for lost."""
        return 0.0
