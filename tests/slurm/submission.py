"""The pipeline submitted to a cluster, on a configuration that takes no time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from tests.slurm.cluster import Cluster
from tests.workflow.conftest import ROOT, TEST_CONFIG

PROFILE = ROOT / "workflow" / "profiles" / "slurm"

PATTERNS = ["1,48,48,1", "1,64,16,2", "2,16,64,3", "3,24,24,4"]
CONFIG = {
    "device": "cpu",
    "cpu": {"patterns": {"explicit": PATTERNS}},
    "implementations": ["bmm", "dense"],
    "patterns_per_job": 1,
    "networks": {"in_all": False},
    "notebooks": ["layout_study"],
    "figures": ["fig02_support", "table01_catalogue"],
}
"""Changes of test.yaml: four timing jobs of 12 measurements each."""

SITE = {
    "partition": "gpu",
    "cpu_partition": "cpu",
    "cuda_architectures": "90a",
    "gpus": 1,  # the config measures on the CPU, the GPUs being pretended
    "extra": "--nice=5",
    "cpus": 1,
    "timing_jobs_per_slurm_job": 2,
}


class Submission:
    """The pipeline in a folder of its own, submitted to a cluster; config and site change CONFIG and SITE."""

    def __init__(self, cluster: Cluster, folder: Path, config: dict | None = None, site: dict | None = None) -> None:
        self.cluster, self.folder = cluster, folder
        defaults = yaml.safe_load((PROFILE / "site.yaml").read_text())
        (folder / "site.yaml").write_text(yaml.safe_dump({**defaults, **SITE, **(site or {})}))
        (folder / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}))

    def start(self, *arguments: str) -> subprocess.Popen:
        """Starts Snakemake, which writes to output.txt."""
        command = [sys.executable, "-m", "snakemake", "--snakefile", ROOT / "Snakefile", "--profile", PROFILE]
        command += ["--directory", self.folder, "--configfile", TEST_CONFIG, self.folder / "config.json"]
        command += ["--slurm-init-seconds-before-status-checks", "7", *arguments]
        with (self.folder / "output.txt").open("a") as output:
            return subprocess.Popen(
                command, stdout=output, stderr=output, env=self._environment, cwd=self.folder, start_new_session=True
            )

    def run(self, *arguments: str, patience_s: float = 600) -> None:
        """Runs Snakemake to its end, which must be a good one."""
        process = self.start(*arguments)
        try:
            assert process.wait(patience_s) == 0, self.output
        finally:
            process.kill()

    def resume(self) -> subprocess.CompletedProcess:
        """Runs `python -m ksmm resume` in the folder; all that it said is in stdout."""
        return subprocess.run(
            [sys.executable, "-m", "ksmm", "resume"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment,
            cwd=self.folder,
            timeout=600,
            check=False,
        )

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self.cluster.environment, "KSMM_SLURM_SITE": str(self.folder / "site.yaml")}

    @property
    def output(self) -> str:
        return (self.folder / "output.txt").read_text()

    @property
    def results(self) -> Path:
        (results,) = (self.folder / "results").iterdir()
        return results

    def slurm_jobs(self) -> list[dict[str, str]]:
        """What Slurm knows of each job of this folder: JobId, JobState, Partition, TresPerJob, Comment ..."""
        lines = self.cluster.command("scontrol", "--oneliner", "show", "job").splitlines()
        # values may have spaces in them
        pairs = [re.split(r" (?=[A-Z][A-Za-z:/]*=)", line) for line in lines if line.startswith("JobId=")]
        jobs = [dict(pair.strip().split("=", 1) for pair in line if "=" in pair) for line in pairs]
        return [job for job in jobs if job["WorkDir"] == str(self.folder)]

    def jobs_of(self, what: str) -> list[dict[str, str]]:
        """The Slurm jobs whose comment begins so: rule_build_kernel, rule_timing_time_patterns (a group) ..."""
        return [job for job in self.slurm_jobs() if job["Comment"].startswith(f"rule_{what}")]


def wait_for(condition: Callable[[], object], what: str, patience_s: float = 600) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {patience_s:g} s for {what}"
        time.sleep(0.2)
