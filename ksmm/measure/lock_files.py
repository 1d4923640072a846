"""Locks that all users of a machine share: a `flock` on a file in a directory where everybody may add one.

The operating system frees a lock when its holder ends, however it ends. The directory is as little trusted as any other
in which strangers write: nothing in it is followed, emptied or waited on unless it is a plain file with one name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

logger = logging.getLogger(__name__)

DIRECTORY_VARIABLE = "KSMM_LOCK_DIRECTORY"
_DEFAULT_DIRECTORY = Path("/tmp/ksmm-locks")  # not $TMPDIR, which is each user's, or each job's, own
_POLL_S = 0.5
_REMIND_S = 60.0
_PID_BYTES = 32


class UnsafeLockError(OSError):
    """Something in the lock directory, or the directory itself, is not what a lock may be."""


def lock_directory() -> Path:
    """Where the lock files are: $KSMM_LOCK_DIRECTORY, else /tmp/ksmm-locks, the same for all users of the machine."""
    return Path(os.environ.get(DIRECTORY_VARIABLE) or _DEFAULT_DIRECTORY)


@contextlib.contextmanager
def hold_any(names: Sequence[str]) -> Iterator[str]:
    """Holds the lock of one of several names, the first that is free; waits as long as none is.

    Raises:
        OSError: the lock directory cannot be used (UnsafeLockError: it is not safe to use it).
    """
    with _usable_directory() as directory:
        name, descriptor = _wait_for_any(directory, names)
    try:
        _sign(descriptor)
        yield name
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _usable_directory() -> Iterator[int]:
    """The descriptor of the lock directory, whose errors say which that is."""
    path = lock_directory()
    try:
        directory = _open_directory(path)
        try:
            yield directory
        finally:
            os.close(directory)
    except UnsafeLockError:
        raise
    except OSError as error:
        raise OSError(
            f"{path} cannot hold the locks of devices: {error}; set {DIRECTORY_VARIABLE} to a folder that can"
        ) from error


def _wait_for_any(directory: int, names: Sequence[str]) -> tuple[str, int]:
    reminded = None
    while True:
        for name in names:
            descriptor = _taken(directory, _file_name(name))
            if descriptor is not None:
                return name, descriptor
        if reminded is None or time.monotonic() - reminded > _REMIND_S:
            reminded = time.monotonic()
            held = (f"{name} (held by {_holder(directory, _file_name(name))})" for name in names)
            logger.info("waiting for %s", ", ".join(held))
        time.sleep(_POLL_S)


def _file_name(name: str) -> str:
    return f"{name.replace('/', '_')}.lock"


def _open_directory(path: Path) -> int:
    """Makes the directory if it is not there, and opens it: from then on nobody can put another one in its place."""
    with contextlib.suppress(FileExistsError):
        path.parent.mkdir(parents=True, exist_ok=True)
        umask = os.umask(0)  # every user may add a lock from the first moment on
        try:
            path.mkdir(mode=0o1777)
        finally:
            os.umask(umask)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        raise UnsafeLockError(
            f"{path} should hold the locks of devices, but is no directory; remove it, or set {DIRECTORY_VARIABLE}"
        ) from None
    mode = os.fstat(descriptor).st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        os.close(descriptor)
        raise UnsafeLockError(
            f"{path} holds the locks of devices, and every user may remove those of others (mode {mode & 0o7777:o}); "
            f"chmod 1777 it, or set {DIRECTORY_VARIABLE}"
        )
    return descriptor


def _taken(directory: int, name: str) -> int | None:
    """The descriptor of a lock that is held from now on; None where somebody else holds it."""
    while True:
        descriptor = _open(directory, name)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_current(directory, name, descriptor):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # a cleaner of old files removed it before it was locked: a lock that nobody else sees


def _is_current(directory: int, name: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(name, dir_fd=directory, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _open(directory: int, name: str) -> int:
    """Opens a lock file, never through a link that somebody else put there.

    An existing file is opened without O_CREAT: in a sticky directory Linux refuses O_CREAT on another user's file.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    while True:
        try:
            descriptor = os.open(name, flags, dir_fd=directory)
        except FileNotFoundError:
            try:
                descriptor = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=directory)
            except FileExistsError:
                continue
            os.fchmod(descriptor, 0o666)
        found = os.fstat(descriptor)
        # one that somebody removed is plain, too: whether it still has its name is asked when it is locked
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_size > _PID_BYTES:
            os.close(descriptor)
            raise UnsafeLockError(
                f"{name} among the locks of devices is no plain lock file (a link to another file, say); remove it"
            )
        return descriptor


def _sign(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def _holder(directory: int, name: str) -> str:
    try:
        descriptor = _open(directory, name)
    except OSError:
        return "another process"
    try:
        pid = os.pread(descriptor, _PID_BYTES, 0).decode(errors="replace").strip()
    finally:
        os.close(descriptor)
    return f"process {pid}" if pid.isdigit() else "another process"
