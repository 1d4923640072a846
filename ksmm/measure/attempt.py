"""One measurement of a job, of whatever study: begun, watched, kept in the journal, given up where it must be."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from ksmm.measure.deadline import deadline
from ksmm.measure.earlier import Earlier
from ksmm.measure.errors import PoisonedError
from ksmm.measure.journal import Journal

logger = logging.getLogger(__name__)

_MOST_BEGINNINGS = 2
"""A measurement that ended its process this often is not tried again."""


@dataclass(frozen=True)
class Attempts:
    """What the measurements of a job have in common.

    Attributes:
        journal: keeps each of them.
        seconds: when one is given up for lost.
        restart: ends this process and starts a new one that does the same; None where that is not possible.
        earlier: what the job's earlier records hold.
    """

    journal: Journal
    seconds: float
    restart: Callable[[], NoReturn] | None
    earlier: Earlier | None = None

    def find(self, identity: dict[str, Any]) -> Any | None:
        """A measurement that was made before, in the journal or else in an earlier record; None if there is none."""
        found = self.journal.find(identity)
        return self.earlier.find(identity) if found is None and self.earlier is not None else found

    def make(
        self, name: object, identity: dict[str, Any], measure: Callable[[], Any], unmeasured: Callable[[str, str], Any]
    ) -> Any:
        """Makes a measurement and journals it; the journal must not hold it yet.

        Args:
            name: of the measurement, for the log.
            identity: what the journal knows it by.
            measure: makes it.
            unmeasured: makes one without a time, of a status and a reason.

        Raises:
            PoisonedError: a CUDA error that this process cannot recover from, and it cannot be restarted. The
                measurement is journalled as failed.
        """
        try:
            before = self.journal.begin(identity)  # in here: an interruption can come while it is noted
            if before >= _MOST_BEGINNINGS:
                reason = f"it ended the process {before} times (a crash, or the system's memory killer)"
                measurement = unmeasured("failed", reason)
            else:
                with deadline(self.seconds, self._giving_up(name, identity, unmeasured)):
                    measurement = measure()
            self.journal.add(identity, measurement)
        except PoisonedError as error:
            self.journal.add(identity, error.measurement)
            if self.restart is None:
                raise
            logger.warning("%s", error)
            self.restart()
        except BaseException:  # interrupted, or the disk is full: no fault of the measurement, so it is tried again
            self.journal.end(identity)
            raise
        return measurement

    def _giving_up(
        self, name: object, identity: dict[str, Any], unmeasured: Callable[[str, str], Any]
    ) -> Callable[[], None] | None:
        """What journals a measurement that is not over in time as too_slow, and restarts; None where it cannot."""
        if self.restart is None:
            return None

        def give_up() -> None:
            logger.warning("%s: not over within %g s", name, self.seconds)
            reason = f"not over within {self.seconds:g} s, compilation included"
            try:
                self.journal.add(identity, unmeasured("too_slow", reason))
            except OSError as error:  # a full disk; the new process says so, too, and lets go of the device
                logger.error("%s: that cannot be kept: %s", name, error)
            finally:
                self.restart()

        return give_up
