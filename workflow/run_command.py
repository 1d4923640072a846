"""What a run was called with, kept so that `python -m ksmm resume` can go on with it after it died (ksmm/resume.py)."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from pathlib import Path

FILE = Path(".snakemake/ksmm-run.json")
_held = []
"""The open file: its lock is held as long as this process lives, so that nobody resumes what is not dead."""


def remember(arguments: list[str], results: Path, device: str | None) -> None:
    """Writes what there is to know of the run that begins, in the working directory, beside Snakemake's lock.

    Args:
        arguments: Snakemake's.
        results: the folder of results, seen from the working directory.
        device: slug of the device that is measured; None where nothing is measured.
    """
    content = {
        "arguments": arguments,
        "folder": _folder_of_call(arguments),
        "results": str(results),
        "device": device,
        "host": socket.gethostname(),
        "process": os.getpid(),
    }
    FILE.parent.mkdir(exist_ok=True)
    file = FILE.open("a+", encoding="utf-8")
    with contextlib.suppress(OSError):  # --nolock, or a file system without locks
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    file.truncate(0)
    file.write(json.dumps(content, indent=1) + "\n")
    file.flush()
    _held.append(file)


def _folder_of_call(arguments: list[str]) -> str:
    """Where Snakemake was called, as far as it is known: by --directory it has gone elsewhere."""
    moved = any(argument.split("=")[0] in ("--directory", "-d") for argument in arguments)
    return os.environ.get("PWD", str(Path.cwd())) if moved else str(Path.cwd())
