"""Many trivial patterns through a real Slurm, to see that scheduling scales; no test, since it takes half an hour.

    python tests/slurm/scale.py FOLDER --patterns 600 --per-slurm-job 10 --jobs 200

It starts a Slurm with two pretended GPUs, has every pattern measured by a job of its own, and says where the time went.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ksmm.measure.provenance import device_slug
from tests.slurm.cluster import Cluster
from tests.slurm.submission import Submission

PROTOCOL = {"min_samples": 1, "max_samples": 1, "runs_per_sample": 1, "max_seconds": 0.01}
_TIME = re.compile(r"^\[(\w{3} \w{3} [ \d]\d [\d:]{8} \d{4})\]$")


def main() -> None:
    """Command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=lambda text: Path(text).absolute(), help="an empty folder for the run")
    parser.add_argument("--patterns", type=int, default=600)
    parser.add_argument("--per-slurm-job", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=200, help="Slurm jobs queued or running at once")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ksmm-slurm-") as folder:
        cluster = Cluster(Path(folder))
        try:
            cluster.start()
            submission = submit(cluster, arguments)
            sys.stdout.write(summary(submission, arguments.patterns))
        finally:
            cluster.stop()


def submit(cluster: Cluster, arguments: argparse.Namespace) -> Submission:
    """Runs the pipeline up to the table, which must end well."""
    config = {
        "cpu": {"patterns": {"explicit": trivial_patterns(arguments.patterns)}},
        "layouts": ["batch_last"],
        "implementations": ["dense"],
        "protocol": PROTOCOL,
    }
    site = {"timing_jobs_per_slurm_job": arguments.per_slurm_job}
    submission = Submission(cluster, arguments.folder, config=config, site=site)
    build = submission.folder / "results" / device_slug("cpu") / "build.json"
    build.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "ksmm", "build", "--record", build], check=True)
    target = str((build.parent / "time.csv").relative_to(submission.folder))
    submission.run(target, "--jobs", str(arguments.jobs), "--slurm-keep-successful-logs", patience_s=7200)
    return submission


def trivial_patterns(count: int) -> list[str]:
    """So many small patterns, no two the same."""
    sides = itertools.product(range(1, 7), (2, 4, 6, 8), (2, 4, 6, 8), range(1, 101))
    return [",".join(map(str, sides)) for sides in itertools.islice(sides, count)]


def summary(submission: Submission, patterns: int) -> str:
    """Where the time of the run went, as a Markdown table."""
    jobs = submission.jobs_of("timing")
    held_s = sum((moment(job["EndTime"]) - moment(job["StartTime"])).total_seconds() for job in jobs)
    working_s = sum(seconds_in_members(Path(job["StdOut"])) for job in jobs)
    submitted = [moment(job["SubmitTime"]) for job in jobs]
    ended = [moment(job["EndTime"]) for job in jobs]
    span_s, gpus = (max(ended) - min(submitted)).total_seconds(), submission.cluster.gpus
    rows = {
        "patterns measured": len(list(submission.results.glob("time/records/*.json"))),
        "Slurm jobs that measured": len(jobs),
        "of these completed": sum(job["JobState"] == "COMPLETED" for job in jobs),
        "submitted within, s": (max(submitted) - min(submitted)).total_seconds(),
        "from the first submission to the last end, s": span_s,
        "GPUs held, s": held_s,
        "of that in timing jobs (Python, PyTorch, measuring), s": working_s,
        "overhead per pattern while a GPU is held (Slurm, Snakemake), s": round((held_s - working_s) / patterns, 2),
        # a GPU also waits between two Slurm jobs
        "overhead per pattern, gaps between Slurm jobs included, s": round((gpus * span_s - working_s) / patterns, 2),
    }
    lines = ["| | |", "|---|---|", *(f"| {name} | {value:g} |" for name, value in rows.items())]
    return "\n".join(lines) + "\n"


def moment(text: str) -> datetime.datetime:
    """A time as scontrol writes it."""
    return datetime.datetime.fromisoformat(text)


def seconds_in_members(log: Path) -> float:
    """Seconds between the starts and the ends of a Slurm job's members, of which only one runs at a time."""
    total, started, now = 0.0, None, None
    for line in log.read_text().splitlines():
        found = _TIME.match(line)
        if found:
            now = time.mktime(time.strptime(found.group(1)))
        elif re.match(r"Job \d+: Timing", line):
            started = now
        elif line.startswith("Finished jobid") and started is not None:
            total, started = total + now - started, None
    return total


if __name__ == "__main__":
    main()
