"""One run that meets with what a cluster has in store, and still ends with everything measured, and once only.

Three Slurm jobs of two timing jobs each are on their way to two GPUs, and the node is drained. One is cancelled with
scancel, one exceeds its runtime, the third has not begun; then the controller is stopped and started again.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass

import pytest

from ksmm.measure.provenance import device_slug
from ksmm.measure.records import read_record
from tests.slurm.submission import Submission, wait_for

pytestmark = pytest.mark.workflow

PATTERNS = ["1,48,48,1", "1,64,16,2", "2,16,64,3", "3,24,24,4", "1,32,32,2", "2,24,48,1"]
NUMBERS_PER_PATTERN = 6
PROTOCOL = {"min_samples": 10, "max_samples": 1000000, "target_relative_iqr": 1e-9}


def submit_timing(cluster, folder, patterns, max_seconds) -> tuple[Submission, list[str]]:
    """A submission of the timing jobs alone, and what it is to make; the kernel is built already.

    Each number takes max_seconds, so that a Slurm job is met in the middle of its first pattern.
    """
    config = {"cpu": {"patterns": {"explicit": patterns}}, "protocol": {**PROTOCOL, "max_seconds": max_seconds}}
    submission = Submission(cluster, folder, config=config)
    results = folder / "results" / device_slug("cpu")
    results.mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "ksmm", "build", "--record", results / "build.json"], check=True)
    names = [pattern.replace(",", "x") for pattern in patterns]
    return submission, [str((results / f"time/records/{name}.json").relative_to(folder)) for name in names]


def journal(submission: Submission) -> dict[tuple, str]:
    """What is measured and in no table yet: what it is -> when it was begun."""
    entries = {}
    for path in submission.results.glob("time/journal/*.json"):
        measurement = json.loads(path.read_text())["measurement"]
        entries[key_of(measurement)] = measurement["started_at"]
    return entries


def records(submission: Submission) -> dict[tuple, str]:
    """The same of what is in records."""
    measurements = [
        measurement
        for path in submission.results.glob("time/records/*.json")
        for measurement in read_record(path)["measurements"]
    ]
    assert len({key_of(each) for each in measurements}) == len(measurements)
    return {key_of(each): each["started_at"] for each in measurements}


def key_of(measurement: dict) -> tuple:
    return tuple(str(measurement[name]) for name in ("pattern", "layout", "implementation", "part"))


def in_the_middle(submission: Submission, jobs: int) -> bool:
    """Whether so many Slurm jobs run, and each has measured something of its first pattern."""
    running = [job for job in submission.jobs_of("timing") if job["JobState"] == "RUNNING"]
    return len(running) == jobs and len({pattern for pattern, *_ in journal(submission)}) >= jobs


@dataclass
class Trouble:
    """What was seen of the run: states of Slurm jobs by their numbers, and numbers of measurements."""

    submission: Submission
    after_the_blows: dict[str, str]
    while_drained: dict[str, str]
    after_the_restart: dict[str, str]
    at_the_end: dict[str, str]
    kept: dict[tuple, str]
    measured: dict[tuple, str]
    exit_status: int


@pytest.fixture(scope="module")
def trouble(cluster, tmp_path_factory) -> Trouble:
    """The run, once for these tests."""
    # Slurm looks every 30 s for jobs over their limits
    submission, targets = submit_timing(cluster, tmp_path_factory.mktemp("trouble"), PATTERNS, max_seconds=3.0)

    def states() -> dict[str, str]:
        return {job["JobId"]: job["JobState"] for job in submission.jobs_of("timing")}

    def those(state: str) -> list[str]:
        return [number for number, found in states().items() if found == state]

    process = submission.start(*targets)
    try:
        wait_for(lambda: in_the_middle(submission, 2), "two Slurm jobs to measure")
        cluster.drain()
        first, second = those("RUNNING")
        cluster.cancel(first)
        # its limit is moved to the present (Slurm's shortest is a minute), as scontrol knows it:
        # what is past when Slurm hears of it is refused
        cluster.command("scontrol", "update", f"JobId={second}", "EndTime=now+2")
        wait_for(lambda: not those("RUNNING") and not those("COMPLETING"), "the two Slurm jobs to end")
        after_the_blows, kept = states(), journal(submission)
        wait_for(lambda: len(states()) == 5, "Snakemake to submit both again")
        while_drained = states()
        assert cluster.node_state() == "drained"
        cluster.stop_controller()
        cluster.start_controller()
        after_the_restart = states()
        cluster.resume()
        exit_status = process.wait(240)
    finally:
        process.kill()
        cluster.cancel(*cluster.jobs())
        cluster.resume()
    return Trouble(
        submission,
        after_the_blows,
        while_drained,
        after_the_restart,
        states(),
        kept,
        records(submission),
        exit_status,
    )


def test_it_ends_well_with_everything_measured(trouble):
    assert trouble.exit_status == 0, trouble.submission.output
    assert len(trouble.measured) == len(PATTERNS) * NUMBERS_PER_PATTERN
    assert len(list(trouble.submission.results.glob("time/records/*.json"))) == len(PATTERNS)


def test_a_cancelled_job_and_one_over_its_limit_are_submitted_again(trouble):
    assert {"CANCELLED", "TIMEOUT"} <= set(trouble.after_the_blows.values()) <= {"CANCELLED", "TIMEOUT", "PENDING"}
    assert len(trouble.at_the_end) == 5
    assert sorted(trouble.at_the_end.values()) == ["CANCELLED", *["COMPLETED"] * 3, "TIMEOUT"]
    assert len(set(re.findall(r"Error in group (timing\d)", trouble.submission.output))) == 2


def test_a_retry_asks_for_twice_the_time(trouble):
    limits = [job["TimeLimit"] for job in trouble.submission.jobs_of("timing") if job["JobState"] == "COMPLETED"]
    minutes = sorted(60 * int(hours) + int(minutes) for hours, minutes, _ in (text.split(":") for text in limits))
    assert minutes == [minutes[0], 2 * minutes[0], 2 * minutes[0]]


def test_what_they_had_measured_is_kept_and_not_measured_again(trouble):
    assert 2 <= len(trouble.kept) < len(trouble.measured)
    for key, started_at in trouble.kept.items():
        assert trouble.measured[key] == started_at


def test_a_drained_node_gets_no_job_and_the_jobs_wait(trouble):
    assert list(trouble.while_drained.values()).count("PENDING") == 3
    assert "RUNNING" not in trouble.while_drained.values()


def test_the_controller_may_be_restarted(trouble):
    assert trouble.after_the_restart == trouble.while_drained


def test_resume_cancels_what_a_killed_snakemake_left_in_the_queue_and_goes_on(cluster, tmp_path):
    submission, targets = submit_timing(cluster, tmp_path, PATTERNS[:4], max_seconds=0.5)
    process = submission.start(*targets)
    try:
        wait_for(lambda: in_the_middle(submission, 2), "two Slurm jobs to measure")
    finally:
        process.kill()
        process.wait()
    left = [job for job in submission.slurm_jobs() if job["JobState"] == "RUNNING"]
    assert len(left) == 2
    cluster.suspend(*(job["JobId"] for job in left))  # so that they are still there when they are to be cancelled
    kept = journal(submission)
    assert kept
    done = submission.resume()
    assert done.returncode == 0, done.stdout
    measured = records(submission)
    assert len(measured) == 4 * NUMBERS_PER_PATTERN
    assert all(measured[key] == started_at for key, started_at in kept.items())
    ends = {job["JobId"]: job["JobState"] for job in submission.jobs_of("timing")}
    assert {ends[job["JobId"]] for job in left} == {"CANCELLED"}
    assert sorted(ends.values()) == ["CANCELLED"] * 2 + ["COMPLETED"] * 2
