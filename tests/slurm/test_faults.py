"""One run that meets with every fault that a cluster has to offer, and still ends with everything measured, once.

Three Slurm jobs of two timing jobs each are on their way on two GPUs. One is cancelled with scancel, one exceeds its
runtime, the third waits for a GPU while the node is drained; then the controller is restarted.
"""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from ksmm.measure.records import read_record
from tests.slurm.cluster import NODE
from tests.slurm.conftest import Submission, wait_for
from tests.workflow.conftest import ROOT

pytestmark = pytest.mark.workflow

PATTERNS = ["1,48,48,1", "1,64,16,2", "2,16,64,3", "3,24,24,4", "1,32,32,2", "2,24,48,1"]
# so that each of the 6 measurements of a job takes a second, and a job is met in the middle
SLOW = {
    "patterns": {"explicit": PATTERNS},
    "protocol": {"min_samples": 10, "max_samples": 100000, "target_relative_iqr": 1e-9, "max_seconds": 1.0},
}


@dataclasses.dataclass
class Trouble:
    """What was seen of the run."""

    submission: Submission
    cancelled: str
    over_its_limit: str
    drained: list[dict[str, str]]
    journalled: dict[str, str]


def journal(submission: Submission) -> dict[str, str]:
    """What is measured and in no record yet: what it is of, as text -> when it was begun."""
    entries = {}
    for path in submission.results.glob("time/journal/*.json"):
        with contextlib.suppress(OSError):  # by now in a record
            entry = json.loads(path.read_text())
            entries[task_of(entry["measurement"])] = entry["measurement"]["started_at"]
    return entries


def task_of(measurement: dict) -> str:
    return " ".join(str(measurement[key]) for key in ("pattern", "layout", "implementation", "part"))
