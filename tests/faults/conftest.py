"""Injecting faults into jobs: a script that runs one in a process of its own, with planted implementations."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from ksmm.measure.records import read_record

JOB = textwrap.dedent(
    """
    import logging, os, resource, signal, sys, time
    from pathlib import Path
    import torch
    from ksmm.implementations import get_implementation
    from ksmm.implementations.base import REGISTRY
    from ksmm.measure import job, provenance
    from ksmm.measure.protocol import Protocol
    from ksmm.patterns import Pattern

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    provenance.kernel_hash = lambda: "the same in every try"  # even while somebody edits the sources
    folder = Path(sys.argv[1])
    einsum = type(get_implementation("einsum"))

    def plant(name, matmul):
        REGISTRY[name] = type(name, (einsum,), {"name": name, "matmul": matmul})()

    def run(implementations, **more):
        job.run_job(
            [Pattern(1, 4, 2, 1)], batch_size=4, dtypes=["float32"], layouts=["batch_first"],
            implementations=implementations, record=folder / "records" / "some job.json", journal=folder / "journal",
            protocol=Protocol(min_samples=1, max_samples=1), **{"device_type": "cpu", **more},
        )
    """
)


@pytest.fixture
def run_job(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess]:
    """Runs a job in a process: run_job(code, *arguments); the code may plant implementations and must call run(...)."""

    def run(code: str, *arguments: str, folder: Path = tmp_path, **more) -> subprocess.CompletedProcess:
        command = [sys.executable, "-c", JOB + textwrap.dedent(code), str(folder), *arguments]
        options = {"capture_output": True, "text": True, "timeout": 600, "check": False, **more}
        return subprocess.run(command, **options)

    return run


def statuses(folder: Path) -> dict[tuple[str, str], str]:
    """(implementation, part) -> status of the measurements in the record of the job."""
    measurements = read_record(folder / "records" / "some job.json")["measurements"]
    return {(entry["implementation"], entry["part"]): entry["status"] for entry in measurements}
