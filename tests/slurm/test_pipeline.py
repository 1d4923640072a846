"""The whole pipeline through the queue of a real Slurm with two pretended GPUs and no accounting database."""

import datetime
import itertools
import json
import re
import shlex
import subprocess
import sys

import pytest

from ksmm.measure.records import read_record
from ksmm.table import read_table
from tests.slurm.submission import PATTERNS, Submission

pytestmark = pytest.mark.workflow


@pytest.fixture(scope="module")
def finished(cluster, tmp_path_factory) -> Submission:
    """A run to the end, once for these tests; the folder's name has a space."""
    submission = Submission(cluster, tmp_path_factory.mktemp("a run"))
    submission.run()
    return submission


def test_records_figures_notebook_and_report_are_there(finished):
    results = finished.results
    records = [read_record(path) for path in sorted((results / "time" / "records").glob("*.json"))]
    assert len(records) == len(PATTERNS)
    table = read_table(results / "time.csv")
    assert set(table["pattern"]) == set(PATTERNS)
    assert len(table) == len(PATTERNS) * 2 * 3
    for name in ("figures/fig02_support.pdf", "tables/table01_catalogue.md", "notebooks/layout_study-float32.html"):
        assert (results / name).stat().st_size > 0
    assert "fig02_support" in (results / "report.html").read_text()


def test_the_scheduler_sees_groups(finished):
    assert len(finished.jobs_of("timing")) == 2
    assert len(finished.jobs_of("drawing")) == 1
    # build, two of ceilings, two of timing, one of energy, two tables, plan, drawing, notebooks, report
    jobs = finished.slurm_jobs()
    assert len(finished.jobs_of("energy")) == 1
    assert len(jobs) == 12
    assert {job["JobState"] for job in jobs} == {"COMPLETED"}
    assert {job["Nice"] for job in jobs} == {"5"}


def test_only_what_measures_holds_a_gpu_and_no_more_than_one(finished):
    kinds = ("timing", "energy", "measure_ceilings", "measure_energy_ceilings")
    measuring = [job for kind in kinds for job in finished.jobs_of(kind)]
    numbers = {job["JobId"] for job in measuring}
    for job in finished.slurm_jobs():
        holds = job["JobId"] in numbers
        assert job["Partition"] == ("gpu" if holds else "cpu"), job
        assert job.get("TresPerJob", "") == ("gres:gpu:1" if holds else ""), job


def test_every_job_asks_for_its_time_and_memory(finished):
    for job in finished.slurm_jobs():
        assert job["TimeLimit"] not in ("UNLIMITED", ""), job
        assert job["MinMemoryNode"] != "0", job


def test_no_two_timing_jobs_are_on_one_gpu_at_a_time(finished):
    busy = {}
    for path in (finished.results / "time" / "records").glob("*.json"):
        provenance = json.loads(path.read_text())["provenance"]
        start = datetime.datetime.fromisoformat(provenance["started_at"]).timestamp()
        log = (finished.results / "logs" / "time_patterns" / f"{path.stem}.log").read_text()
        gpu = re.search(r"Slurm job \d+, CUDA_VISIBLE_DEVICES (\d)\n", log).group(1)
        busy.setdefault(gpu, []).append((start, start + provenance["duration_s"]))
    assert set(busy) == {"0", "1"}
    for intervals in busy.values():
        for (_, end), (start, _) in itertools.pairwise(sorted(intervals)):
            assert end <= start


def test_nothing_but_the_empty_target_runs_where_snakemake_runs(finished):
    assert re.findall(r"^localrule (\w+):", finished.output, flags=re.MULTILINE) == ["all"]


def test_the_lock_is_off_in_a_job_that_was_given_a_gpu(cluster, tmp_path):
    question = "from ksmm.measure.lock import given_by_slurm; print(given_by_slurm())"
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(question)}"
    for options, answer in ((["--gpus=1"], "True"), ([], "False")):
        output = tmp_path / f"{answer}.txt"
        cluster.command("sbatch", "--wait", f"--output={output}", *options, "--partition=gpu", f"--wrap={command}")
        assert output.read_text().strip() == answer


def test_there_is_no_accounting_database(finished):
    with pytest.raises(subprocess.CalledProcessError):
        finished.cluster.command("sacct")


def test_the_next_run_submits_nothing(finished):
    before = len(finished.slurm_jobs())
    finished.run()
    assert "Nothing to be done" in finished.output
    assert len(finished.slurm_jobs()) == before
