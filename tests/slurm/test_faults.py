"""One run that meets with what a cluster has in store, and still ends with everything measured, and once only.

Three Slurm jobs of two timing jobs each are on their way to two GPUs, and the node is drained. One is cancelled with
scancel, one exceeds its runtime, the third has not begun; then the controller is stopped and started again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest

from ksmm.measure.provenance import device_slug
from ksmm.measure.records import read_record
from tests.slurm.cluster import NODE
from tests.slurm.conftest import Submission, wait_for

pytestmark = pytest.mark.workflow

PATTERNS = ["1,48,48,1", "1,64,16,2", "2,16,64,3", "3,24,24,4", "1,32,32,2", "2,24,48,1"]
NUMBERS_PER_PATTERN = 6
# each number takes more than a second, so that a job is met in the middle of its first pattern
SLOW = {
    "cpu": {"patterns": {"explicit": PATTERNS}},
    "protocol": {"min_samples": 10, "max_samples": 1000000, "target_relative_iqr": 1e-9, "max_seconds": 1.0},
}


def submit_timing(cluster, folder) -> tuple[Submission, list[str]]:
    """A submission of the timing jobs alone, and what it is to make; the kernel is built already."""
    submission = Submission(cluster, folder, config=SLOW)
    results = folder / "results" / device_slug("cpu")
    results.mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "ksmm", "build", "--record", results / "build.json"], check=True)
    names = [pattern.replace(",", "x") for pattern in PATTERNS]
    return submission, [str((results / f"time/records/{name}.json").relative_to(folder)) for name in names]


def journal(submission: Submission) -> dict[tuple, str]:
    """What is measured and in no record yet: what it is -> when it was begun."""
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
    return len(running) == jobs and len({pattern for pattern, *_ in journal(submission)}) == jobs


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
    submission, targets = submit_timing(cluster, tmp_path_factory.mktemp("trouble"))

    def states() -> dict[str, str]:
        return {job["JobId"]: job["JobState"] for job in submission.jobs_of("timing")}

    def those(state: str) -> list[str]:
        return [number for number, found in states().items() if found == state]

    process = submission.start(*targets)
    try:
        wait_for(lambda: in_the_middle(submission, 2), "two Slurm jobs to measure")
        cluster.command("scontrol", "update", f"NodeName={NODE}", "State=DRAIN", "Reason=test")
        first, second = those("RUNNING")
        cluster.cancel(first)
        # its limit is moved to the present: Slurm's shortest is a minute
        cluster.command("scontrol", "update", f"JobId={second}", "EndTime=now")
        wait_for(lambda: not those("RUNNING") and not those("COMPLETING"), "the two Slurm jobs to end")
        after_the_blows, kept = states(), journal(submission)
        wait_for(lambda: len(states()) == 5, "Snakemake to submit both again")
        while_drained = states()
        assert cluster.node_state() == "drained"
        cluster.stop_controller()
        cluster.start_controller()
        after_the_restart = states()
        cluster.command("scontrol", "update", f"NodeName={NODE}", "State=RESUME")
        exit_status = process.wait(240)
    finally:
        process.kill()
        if cluster.node_state() != "idle":
            cluster.command("scontrol", "update", f"NodeName={NODE}", "State=RESUME")
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
    assert sorted(trouble.after_the_blows.values()) == ["CANCELLED", "PENDING", "TIMEOUT"]
    assert len(trouble.at_the_end) == 5
    assert sorted(trouble.at_the_end.values()) == ["CANCELLED", *["COMPLETED"] * 3, "TIMEOUT"]
    assert "SLURM status is: 'CANCELLED'" in trouble.submission.output
    assert "SLURM status is: 'TIMEOUT'" in trouble.submission.output


def test_a_retry_asks_for_twice_the_time(trouble):
    limits = {job["JobId"]: job["TimeLimit"] for job in trouble.submission.jobs_of("timing")}
    minutes = [60 * int(hours) + int(minutes) for hours, minutes, _ in (text.split(":") for text in limits.values())]
    assert sorted(set(minutes)) == [min(minutes), 2 * min(minutes)]


def test_what_they_had_measured_is_kept_and_not_measured_again(trouble):
    assert 2 <= len(trouble.kept) <= 2 * NUMBERS_PER_PATTERN
    for key, started_at in trouble.kept.items():
        assert trouble.measured[key] == started_at


def test_a_drained_node_gets_no_job_and_the_jobs_wait(trouble):
    assert list(trouble.while_drained.values()).count("PENDING") == 3
    assert "RUNNING" not in trouble.while_drained.values()


def test_the_controller_may_be_restarted(trouble):
    assert trouble.after_the_restart == trouble.while_drained


def test_a_killed_snakemake_leaves_jobs_that_are_found_by_name_and_the_next_run_goes_on(cluster, tmp_path):
    submission, targets = submit_timing(cluster, tmp_path)
    process = submission.start(*targets)
    try:
        wait_for(lambda: in_the_middle(submission, 2), "two Slurm jobs to measure")
    finally:
        process.kill()
        process.wait()
    left = [job for job in submission.slurm_jobs() if job["JobState"] in ("RUNNING", "PENDING")]
    assert len(left) == 3
    (name,) = {job["JobName"] for job in left}
    assert name.startswith("ksmm_")
    assert name in submission.output
    cluster.command("scancel", f"--name={name}")
    wait_for(lambda: not cluster.jobs(), "the cancelled jobs to end")
    kept = journal(submission)
    submission.run("--unlock")
    submission.run(*targets)
    measured = records(submission)
    assert len(measured) == len(PATTERNS) * NUMBERS_PER_PATTERN
    assert kept
    assert all(measured[key] == started_at for key, started_at in kept.items())
    # each timing job once more, and in no other groups
    assert len(submission.jobs_of("timing")) == 6
