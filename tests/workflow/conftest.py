"""Running the pipeline in a folder of its own, and one finished run that several tests look at."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEST_CONFIG = ROOT / "workflow" / "config" / "test.yaml"
sys.path.insert(0, str(ROOT / "workflow"))


def snakemake_command(
    folder: Path, *arguments: str, config: dict | None = None, snakefile: Path = ROOT / "Snakefile"
) -> list[str]:
    """The command line that runs the pipeline with `folder` as working directory, on test.yaml changed by config."""
    configfiles = [str(TEST_CONFIG)]
    if config is not None:
        changes = folder / "changed config.json"
        changes.write_text(json.dumps(config))
        configfiles.append(str(changes))
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(snakefile), "--directory", str(folder)]
    return [*command, "--configfile", *configfiles, "--cores", "2", *arguments]


def run_snakemake(folder: Path, *arguments: str, **changes) -> subprocess.CompletedProcess:
    """Runs the pipeline and returns its exit status and all that it said, in stdout; arguments as above."""
    # .venv/bin need not be on PATH: the pipeline finds the Python that it runs in
    environment = {**os.environ, "PATH": "/usr/local/bin:/usr/bin:/bin"}
    command = snakemake_command(folder, *arguments, **changes)
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


@pytest.fixture
def copied_run(finished_run, tmp_path) -> Path:
    """A copy of the finished run's working directory, that a test may spoil."""
    # as deep as the original: the pipeline sees the repository by a relative path
    return shutil.copytree(finished_run[0].parent.parent, tmp_path, dirs_exist_ok=True)
