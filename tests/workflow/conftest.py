"""Running the pipeline in a folder of its own, and one finished run that several tests look at."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEST_CONFIG = ROOT / "workflow" / "config" / "test.yaml"
sys.path.insert(0, str(ROOT / "workflow"))

Run = Callable[..., subprocess.CompletedProcess]


def snakemake_command(folder: Path, *arguments: str, configfile: Path = TEST_CONFIG) -> list[str]:
    """The command line that runs the pipeline with `folder` as its working directory."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder)]
    return [*command, "--cores", "2", "--configfile", str(configfile), *arguments]


def run_snakemake(folder: Path, *arguments: str, configfile: Path = TEST_CONFIG) -> subprocess.CompletedProcess:
    """Runs the pipeline and returns its exit status and all that it said, in stdout."""
    # .venv/bin need not be on PATH: the pipeline finds the Python that it runs in
    environment = {**os.environ, "PATH": "/usr/local/bin:/usr/bin:/bin"}
    command = snakemake_command(folder, *arguments, configfile=configfile)
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False
    )


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess]:
    """The whole pipeline on test.yaml, once, in a folder whose name has a space: its results and what it said."""
    folder = tmp_path_factory.mktemp("a whole run")
    done = run_snakemake(folder)
    assert done.returncode == 0, done.stdout
    (results,) = (folder / "results").iterdir()
    return results, done
