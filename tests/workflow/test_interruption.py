"""A run that is killed loses nothing that was measured; two runs in one folder are refused."""

import contextlib
import os
import platform
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.workflow.conftest import run_snakemake, snakemake_command

pytestmark = pytest.mark.workflow

JOB = "1x48x48x1-to-1x64x16x2"
# slow enough to be killed in the middle: 32 measurements of up to 0.3 s
PROTOCOL = {"min_samples": 10, "max_samples": 1000, "runs_per_sample": 10, "target_relative_iqr": 1e-4}
SLOW = {"protocol": {**PROTOCOL, "max_seconds": 0.3}}


def measured(journal: Path) -> set[str]:
    return {path.name for path in journal.glob("*.json")} if journal.exists() else set()


def kill_all_of(process: subprocess.Popen) -> None:
    """Kills a process that leads a session, and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_killed_run_loses_nothing_and_two_runs_in_one_folder_are_refused(tmp_path):
    results = tmp_path / "results" / f"cpu-{platform.machine().lower()}"
    target = str(results.relative_to(tmp_path) / "time" / "records" / f"{JOB}.json")
    journal = results / "time" / "journal"
    with (tmp_path / "output.txt").open("w") as output:
        first = subprocess.Popen(
            snakemake_command(tmp_path, target, config=SLOW), stdout=output, stderr=output, start_new_session=True
        )
        try:
            deadline = time.monotonic() + 120
            while not measured(journal) and first.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            assert first.poll() is None, (tmp_path / "output.txt").read_text()
            second = run_snakemake(tmp_path, target, config=SLOW)
        finally:
            kill_all_of(first)
    assert second.returncode != 0
    assert "cannot be locked" in second.stdout
    assert "--unlock" in second.stdout

    kept = {name: (journal / name).read_bytes() for name in measured(journal)}
    assert kept
    assert run_snakemake(tmp_path, "--unlock").returncode == 0
    third = run_snakemake(tmp_path, target, config=SLOW)
    assert third.returncode == 0, third.stdout
    log = (results / "logs" / "time_patterns" / f"{JOB}.log").read_text()
    assert log.count("measured before") == len(kept)
    assert {name: (journal / name).read_bytes() for name in kept} == kept
