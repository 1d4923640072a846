"""A run whose jobs are killed, that is interrupted, and killed itself, measures everything once."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workflow.conftest import run_snakemake, snakemake_command

pytestmark = pytest.mark.workflow

JOB = "1x48x48x1-to-1x64x16x2"
# slow enough to be killed in the middle: more than 30 measurements of up to 0.3 s
PROTOCOL = {"min_samples": 10, "max_samples": 1000, "runs_per_sample": 10, "target_relative_iqr": 1e-4}
SLOW = {"protocol": {**PROTOCOL, "max_seconds": 0.3}}
RESULTS = Path("results") / f"cpu-{platform.machine().lower()}"
RECORD = RESULTS / "time" / "records" / f"{JOB}.json"


class Run:
    """A run in the background that is asked for one record, and what it has measured so far."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self.folder, self.output = folder, folder / f"output-{time.monotonic_ns()}.txt"
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                stdout=output,
                stderr=output,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                preexec_fn=lambda: signal.signal(
                    signal.SIGINT, signal.SIG_DFL
                ),  # ignored where pytest is in a shell's &
            )

    def wait_for(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 600
        while not what() and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert what(), self.output.read_text()
        assert self.process.poll() is None, self.output.read_text()

    def measures(self, more: int = 2) -> None:
        """Waits until it has measured something more."""
        before = measured(self.folder)
        self.wait_for(lambda: len(measured(self.folder)) >= len(before) + more)
        assert before.items() <= measured(self.folder).items()

    def end(self) -> str:
        code = self.process.wait(120)
        assert code == 0, self.output.read_text()
        return self.output.read_text()


def measured(folder: Path) -> dict[str, bytes]:
    """What is in the journal: each measurement is written once, with the time at which it began."""
    return {path.name: path.read_bytes() for path in (folder / RESULTS / "time" / "journal").glob("*.json")}


def job_log(folder: Path) -> str:
    """What the job says; Snakemake removes it before each try."""
    path = folder / RESULTS / "logs" / "time_patterns" / f"{JOB}.log"
    return path.read_text() if path.exists() else ""


def job_process(folder: Path) -> int:
    """The process that measures, as its log says; 0 before it does."""
    found = re.match(r"process (\d+), ", job_log(folder))
    return int(found[1]) if found else 0


def kill(process: int, how: int = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, how)


def kill_all_of(run: Run) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(run.process.pid, signal.SIGKILL)
    run.process.wait()


@pytest.fixture
def start(tmp_path):
    """Starts runs in one folder, and makes sure that nothing of them outlives the test."""
    runs = []

    def run(*command: str) -> Run:
        runs.append(Run(tmp_path, list(command) or snakemake_command(tmp_path, str(RECORD), config=SLOW)))
        return runs[-1]

    yield run
    for one in runs:
        kill_all_of(one)


def test_everything_is_measured_once_whatever_is_killed(start, tmp_path):
    first = start()
    first.measures()
    killed = job_process(tmp_path)
    kill(killed)  # a job: the run tries it again
    first.wait_for(lambda: job_process(tmp_path) not in (0, killed))
    first.measures()
    os.killpg(first.process.pid, signal.SIGINT)  # Ctrl-C
    assert first.process.wait(30) != 0
    kept = measured(tmp_path)

    second = start()  # without unlocking
    second.measures()
    kill(job_process(tmp_path), signal.SIGSTOP)  # so that it does not end meanwhile
    beside = run_snakemake(tmp_path, str(RECORD), config=SLOW)
    assert beside.returncode != 0
    assert "cannot be locked" in beside.stdout
    assert "--unlock" in beside.stdout
    resume = [sys.executable, "-m", "ksmm", "resume"]
    alive = subprocess.run(resume, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert alive.returncode == 2
    assert f"the run still runs, as process {second.process.pid}" in alive.stderr
    kill(second.process.pid)  # Snakemake alone: its job goes on
    second.process.wait()
    kill(job_process(tmp_path), signal.SIGCONT)

    third = start(*resume)
    assert "going on: snakemake" in third.end()
    assert (tmp_path / RECORD).exists()
    # the job that was left alone ended first, and the one that was started again found all in the journal
    outcomes = re.findall(r"^\[\d+/\d+\] .*: (.*)$", job_log(tmp_path), re.MULTILINE)
    assert len(outcomes) == len(measured(tmp_path))
    assert set(outcomes) == {"measured before"}
    assert {name: measured(tmp_path)[name] for name in kept} == kept


def test_a_run_that_timeout_ends_takes_no_measurement_for_a_crash(start, tmp_path):
    """timeout sends SIGTERM to Snakemake and to its jobs; Snakemake then begins no other."""
    first = start()
    first.measures()
    os.killpg(first.process.pid, signal.SIGTERM)
    assert first.process.wait(30) != 0
    kept = measured(tmp_path)
    journal = tmp_path / RESULTS / "time" / "journal"
    assert [path.name for path in journal.iterdir() if path.suffix != ".json"] == []
    assert not (tmp_path / RECORD).exists()

    second = start()
    second.measures()
    assert kept.items() <= measured(tmp_path).items()
