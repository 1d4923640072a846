"""Going on with a run of the pipeline that died: `python -m ksmm resume`.

What the run was called with stands in .snakemake/ksmm-run.json of its working directory (workflow/run_command.py). What
it has left in a queue of Slurm is cancelled first: a job that is submitted again must not measure beside its twin.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ksmm.measure.ceilings_file import read_ceilings, read_energy_ceilings
from ksmm.measure.records import RecordError, read_record
from ksmm.measure.rejected import set_aside
from ksmm.networks.records import read_record as read_network_record
from ksmm.slurm_queue import cancel_jobs, run_names

logger = logging.getLogger(__name__)

FILE = Path(".snakemake/ksmm-run.json")
LOCK = FILE.with_suffix(".lock")
RESUMING = Path(".snakemake/ksmm-resume.lock")

READERS = {"time": read_record, "energy": read_record, "networks": read_network_record}
"""What reads the records of each study: called with a path and the slug of the device that it must be of."""


class ResumeError(RuntimeError):
    """A run that cannot be resumed; the message says why and what to do."""


def resume(folder: Path, more: Sequence[str] = (), *, elsewhere: bool = False) -> NoReturn:
    """Cancels what is queued, unlocks, sets aside what cannot be used, and becomes Snakemake with the run's arguments.

    It also has the run's environment variables (workflow/run_command.py says which), but where they are set anew.

    Args:
        folder: the working directory of the run.
        more: arguments of Snakemake that follow those of the run.
        elsewhere: go on although the run was started on another host, where nobody can see whether it still runs.

    Raises:
        ResumeError: no run is known there, it still runs, or Slurm cannot be asked.
        OSError: a file cannot be read or moved.
    """
    run = read_run(folder)
    refuse_living(folder, run, elsewhere)
    resume_alone(folder)
    cancel_jobs(run_names(folder / ".snakemake" / "log"))
    if run["device"] is not None:
        mend_results(folder / run["results"], run["device"])
    os.chdir(run["folder"])
    command = [sys.executable, "-m", "snakemake", *run["arguments"]]
    remembered = {name: value for name, value in run.get("variables", {}).items() if name not in os.environ}
    environment = {**os.environ, **remembered}
    refuse_living(folder, run, elsewhere)  # nor has it been started while jobs were cancelled
    if any((folder / ".snakemake" / "locks").glob("*")):
        unlock = [*command, "--unlock"]
        done = subprocess.run(unlock, capture_output=True, text=True, check=False, env=environment)
        if done.returncode:
            raise ResumeError(f"{folder} cannot be unlocked:\n{done.stdout}{done.stderr}")
    command += more
    spoken = [*(f"{name}={value}" for name, value in remembered.items()), "snakemake", *command[3:]]
    logger.info("going on: %s", " ".join(spoken))
    os.execve(command[0], command, environment)


def read_run(folder: Path) -> dict[str, Any]:
    """What is known of the last run in a folder.

    Raises:
        ResumeError: nothing.
    """
    path = folder / FILE
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
        complete = {"arguments", "folder", "results", "device", "host", "process"} <= set(run)
    except (OSError, ValueError, TypeError):
        complete = False
    if not complete:
        raise ResumeError(
            f"there is no run to resume in {folder.resolve()} ({FILE} is missing or not whole); "
            "name its folder with --directory, or start one: snakemake --cores all"
        )
    return run


def resume_alone(folder: Path) -> None:
    """Takes a lock for as long as this process lives, also as Snakemake: of two that resume only one unlocks.

    Raises:
        ResumeError: another process resumes the run.
    """
    handle = os.open(folder / RESUMING, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise ResumeError(
            f"the run in {folder.resolve()} is being resumed by another process; leave it to that"
        ) from None
    os.set_inheritable(handle, True)


def refuse_living(folder: Path, run: dict[str, Any], elsewhere: bool) -> None:
    """Makes sure that the run is dead.

    Raises:
        ResumeError: it is not, or nobody can tell.
    """
    with (folder / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # the run holds it as long as it lives
        except BlockingIOError:
            raise ResumeError(
                f"the run still runs, as process {run['process']} on {run['host']}; stop it first (Ctrl-C, or kill)"
            ) from None
    if run["host"] != socket.gethostname() and not elsewhere:
        raise ResumeError(
            f"the run was started on {run['host']}, and from here it is not certain that it is dead; "
            "resume it there, or make sure that it is dead and add --elsewhere"
        )


def mend_results(results: Path, device: str) -> None:
    """Makes what the dead run has left such that the next one makes exactly what is missing.

    Records of all studies that cannot be used are set aside, and ceilings; a record of a build that is not whole is
    removed (the library is found again without compiling). Files from the future, of a clock that was set back, are
    dated now: Snakemake takes what is made after them for older than they are.

    Args:
        results: the folder of the device.
        device: its slug.
    """
    for study, read in READERS.items():
        for path in sorted((results / study / "records").glob("*.json")):
            _set_aside_if_bad(path, results / study / "rejected", device, read)
    _set_aside_if_bad(results / "ceilings.json", results / "time" / "rejected", device, read_ceilings)
    _set_aside_if_bad(
        results / "energy" / "ceilings.json", results / "energy" / "rejected", device, read_energy_ceilings
    )
    build = results / "build.json"
    if build.exists():
        try:
            json.loads(build.read_text(encoding="utf-8"))
        except ValueError:
            logger.warning("%s is not whole; removed", build)
            build.unlink()
    _date_back(results)


def _set_aside_if_bad(path: Path, rejected: Path, device: str, read: Callable[[Path, str], object]) -> None:
    """Moves a file that cannot be used to `rejected`, so that what makes it runs again."""
    if path.exists():
        try:
            read(path, device)
        except RecordError as error:
            set_aside(path, rejected, str(error))
            path.unlink(missing_ok=True)  # a copy was made where the folders are not beside each other


def _date_back(results: Path) -> None:
    now = time.time()
    for path in results.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and path.stat().st_mtime > now + 1:
                logger.warning("%s is from the future; dated now", path)
                os.utime(path, (now, now))
