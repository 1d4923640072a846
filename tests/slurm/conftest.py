"""A real Slurm for these tests; skipped where it cannot be started."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster, reason_absent


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A Slurm with two pretended GPUs, for the whole session."""
    reason = reason_absent()
    if reason is not None:
        pytest.skip(reason)
    # pytest's folders are root's alone, and munged has a user of its own
    with tempfile.TemporaryDirectory(prefix="ksmm-slurm-") as folder:
        started = Cluster(Path(folder))
        try:
            started.start()
            yield started
        finally:
            started.stop()
