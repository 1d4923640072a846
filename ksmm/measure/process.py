"""How the process of a job may be ended from outside without looking as if it had crashed."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def ended_politely() -> Iterator[None]:
    """Turns SIGTERM (a scheduler's, say) into SystemExit, so that it does not look as if a measurement had crashed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
