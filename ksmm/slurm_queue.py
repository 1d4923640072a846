"""What a run of the pipeline has in Slurm's queue, found by the name that Snakemake's Slurm plugin gives its jobs."""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

logger = logging.getLogger(__name__)

_ANNOUNCEMENT = re.compile(r"SLURM run ID: ([\w-]+)")
_MOST_SECONDS = 120.0
_POLL_S = 1.0


class QueueError(RuntimeError):
    """Slurm cannot be asked, or does not end jobs that it was told to cancel."""


def run_names(logs: Path) -> list[str]:
    """The name of all jobs of each run that wrote to a folder of Snakemake's logs: the plugin says it at its start.

    The name is a UUID (behind --slurm-jobname-prefix, if that is given).
    """
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in sorted(logs.glob("*.log")))
    return list(dict.fromkeys(name for text in texts for name in _ANNOUNCEMENT.findall(text)))


def cancel_jobs(names: Sequence[str]) -> list[str]:
    """Cancels this user's jobs of these names, queued or running, and waits until they are gone.

    Returns:
        Their numbers.

    Raises:
        QueueError: there were jobs, and Slurm cannot be asked, or does not end them.
    """
    if not names:
        return []
    if shutil.which("squeue") is None or shutil.which("scancel") is None:
        logger.warning("runs in this folder gave jobs to Slurm; without squeue nobody sees here what is left of them")
        return []
    jobs = _queued(names)
    if not jobs:
        return []
    logger.info("cancelling %d jobs that the run has left in the queue", len(jobs))
    _slurm(["scancel", *jobs])
    start = time.monotonic()
    while left := _queued(names):
        if time.monotonic() - start > _MOST_SECONDS:
            raise QueueError(f"Slurm has not ended these jobs: {', '.join(left)}; scancel them, then resume")
        time.sleep(_POLL_S)
    return jobs


def _queued(names: Sequence[str]) -> list[str]:
    return _slurm(["squeue", "--me", "--noheader", "--format=%i", f"--name={','.join(names)}"]).split()


def _slurm(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise QueueError(f"{command[0]} failed, so nothing was resumed: {done.stderr.strip() or done.returncode}")
    return done.stdout
