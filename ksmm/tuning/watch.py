"""Who runs while a problem is tuned, on disk: what ends the process, or never ends, is left out by the next one."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from ksmm.measure.deadline import deadline
from ksmm.measure.files import write_atomically
from ksmm.tuning.file import TuningFile, write_tuning

logger = logging.getLogger(__name__)

_MOST_BEGINNINGS = 2
"""Who ended so many processes while running is left out: one may have been killed for another reason."""


class Watch:
    """The failures of a tuning file, and a note beside it of who runs.

    Args:
        file: the tuning file.
        tuning: its content.
        kernel_hash: of the kernel's sources; what failed with others may be mended.
        seconds: who is not over by then is given up for lost.
        restart: ends this process and starts one that does the same; None where that is not possible: then nobody is
            given up for lost.
    """

    def __init__(
        self, file: Path, tuning: TuningFile, kernel_hash: str, seconds: float, restart: Callable[[], NoReturn] | None
    ) -> None:
        self._file = file
        self._tuning = tuning
        self._kernel_hash = kernel_hash
        self._seconds = seconds
        self._restart = restart
        self._note = file.with_name(f".{file.name}.running")
        self._ended = self._read_note()
        for (problem, name), count in list(self._ended.items()):
            if count >= _MOST_BEGINNINGS and name not in self.excluded(problem):
                self.add(problem, name, f"it ended the process {count} times")
            if name in self.excluded(problem):
                del self._ended[problem, name]
        self._write_note(self._ended)

    def excluded(self, problem: str) -> set[str]:
        """The configurations and rivals that are not to be run on a problem, since they failed on it."""
        return {
            name for where, name, _, kernel in self._tuning.failures if (where, kernel) == (problem, self._kernel_hash)
        }

    def add(self, problem: str, name: str, reason: str) -> None:
        """Remembers that one failed, on disk, too."""
        logger.error("%s on %s is left out from now on: %s", name, problem, reason)
        self._tuning.failures.append([problem, name, reason, self._kernel_hash])
        write_tuning(self._file, self._tuning)

    @contextlib.contextmanager
    def running(self, problem: str, name: str) -> Iterator[None]:
        """Around the run of one: it is in the note until it is over, whatever this process says of it."""
        ended = self._ended.get((problem, name), 0)
        try:  # an interruption can come while it is noted
            self._write_note({**self._ended, (problem, name): ended + 1})
            with deadline(self._seconds, self._giving_up(problem, name)):
                yield
        finally:
            self._ended.pop((problem, name), None)
            self._write_note(self._ended)

    def _giving_up(self, problem: str, name: str) -> Callable[[], None] | None:
        restart = self._restart
        if restart is None:
            return None

        def give_up() -> None:
            try:
                self.add(problem, name, f"not over within {self._seconds:g} s")
            except OSError as error:  # a full disk; the new process says so, too, and lets go of the device
                logger.error("%s: that cannot be kept: %s", self._file, error)
            finally:
                restart()

        return give_up

    def _read_note(self) -> dict[tuple[str, str], int]:
        """How often a process ended while one ran, with this kernel."""
        try:
            noted = json.loads(self._note.read_text(encoding="utf-8"))
            return {(problem, name): int(n) for problem, name, n, kernel in noted if kernel == self._kernel_hash}
        except (OSError, ValueError, TypeError):
            return {}

    def _write_note(self, ended: dict[tuple[str, str], int]) -> None:
        if ended:
            noted = [[*who, count, self._kernel_hash] for who, count in ended.items()]
            write_atomically(self._note, json.dumps(noted) + "\n")
        else:
            self._note.unlink(missing_ok=True)
