"""What a run was called with, kept so that `python -m ksmm resume` can go on with it after it died (ksmm/resume.py)."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from pathlib import Path

from ksmm.measure.files import write_atomically
from ksmm.resume import FILE, LOCK

VARIABLES = (
    "KSMM_SLURM_SITE",
    "KSMM_TIMING_JOBS_PER_GROUP",
    "KSMM_MOST_MINUTES",
    "KSMM_CUDA_ARCHITECTURES",
    "KSMM_BUILD_DIRECTORY",
    "KSMM_TUNING_FILE",
    "KSMM_CPU_VARIANT",
    "KSMM_LOCK_DIRECTORY",
    "KSMM_COMMIT",
    "XDG_CACHE_HOME",
    "SNAKEMAKE_PROFILE",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_HOME",
    "CXX",
)
"""What of the environment decides how a run goes: another login shell need not have it."""

_held = []
"""The open lock file: locked as long as this process lives, so that nobody resumes what is not dead."""


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
        "variables": {name: value for name, value in environment_of_caller().items() if name in VARIABLES},
        "results": str(results),
        "device": device,
        "host": socket.gethostname(),
        "process": os.getpid(),
    }
    FILE.parent.mkdir(exist_ok=True)
    lock = LOCK.open("a")
    _held.append(lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # with --nolock beside a run that lives, whose notes these are
    except OSError:
        pass  # a file system without locks
    write_atomically(FILE, json.dumps(content, indent=1) + "\n")


def environment_of_caller() -> dict[str, str]:
    """The environment that the caller gave: without what workflow/slurm_site.py has put there from the site's file."""
    try:
        entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:  # not Linux
        return dict(os.environ)
    pairs = (os.fsdecode(entry).split("=", 1) for entry in entries if b"=" in entry)
    return dict(pairs)


def _folder_of_call(arguments: list[str]) -> str:
    """Where Snakemake was called, as far as it is known: by --directory it has gone elsewhere."""
    moved = any(argument.split("=")[0] in ("--directory", "-d") for argument in arguments)
    return os.environ.get("PWD", str(Path.cwd())) if moved else str(Path.cwd())
