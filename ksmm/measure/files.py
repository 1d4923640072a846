"""Writing files so that nobody ever sees half of one, and nothing is lost when the machine stops."""

from __future__ import annotations

import contextlib
import glob
import os
import tempfile
import uuid
from pathlib import Path


class UnwritableFolderError(OSError):
    """A folder that results should go to cannot be written to."""


def prepare_folder(folder: Path) -> None:
    """Makes a folder, and makes sure before anything is measured that files can be written to it.

    Raises:
        UnwritableFolderError: they cannot.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UnwritableFolderError(
            f"results cannot be written to {folder}: {error.strerror or error}; "
            "make it writable or choose another folder"
        ) from error


def write_atomically(path: Path, text: str) -> None:
    """Writes a text file (UTF-8) whole or not at all: temporary file in the same folder, fsync, rename, fsync.

    Once it returns, the file survives a power loss under its own name.

    Raises:
        OSError: the file cannot be written; an older one of that name is then unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # named before it is made, not by mkstemp: a signal in between would leave a file whose name nobody knows
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        with unfinished.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    _keep_names(path.parent)


def remove_unfinished(path: Path) -> None:
    """Removes what processes that were killed in the middle of writing this file left beside it.

    To be called by the only process that writes the file.
    """
    for unfinished in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        unfinished.unlink(missing_ok=True)


def _keep_names(folder: Path) -> None:
    """Has the names in a folder, a fresh rename among them, written to the disk; some file systems cannot."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
