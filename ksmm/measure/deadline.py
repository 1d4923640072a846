"""A time by which a measurement must be over: nothing gentler than another process stops a compiler or a kernel."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def deadline(seconds: float, give_up: Callable[[], None] | None) -> Iterator[None]:
    """Calls `give_up` from a thread if what is in the block is not over in time.

    One of both happens, and not the other: the block is over, or `give_up` is called. What ends the block at the last
    moment, while `give_up` is at work, waits for it, and so in general for the end of the process.

    Args:
        seconds: from now on.
        give_up: should end the process; None: the block may take as long as it takes.
    """
    if give_up is None:
        yield
        return
    over = threading.Lock()  # taken once, by the one that comes first

    def ring() -> None:
        if over.acquire(blocking=False):
            give_up()

    watch = threading.Timer(seconds, ring)
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        if not over.acquire(blocking=False):
            watch.join()
        watch.cancel()
