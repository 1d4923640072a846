"""What the published runs show of the lock: no two jobs of a run were on one device at the same time."""

from __future__ import annotations

import datetime
import itertools
from pathlib import Path
from typing import Any

import pytest

from ksmm.measure.records import read_record
from ksmm.networks.records import read_record as read_network_record
from tests.measure.sample_records import record_content

MEASUREMENTS = Path(__file__).parents[2] / "measurements"
STUDIES = sorted(path.parent for path in MEASUREMENTS.rglob("records") if any(path.glob("*.json")))


def device_of(record: dict[str, Any]) -> str:
    """A hash of the GPU, or of the host, which has one CPU to measure on."""
    return record["device"].get("id_hash") or record["provenance"]["host"]["id_hash"]


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.relative_to(MEASUREMENTS).as_posix())
def test_one_job_at_a_time_on_each_device(study: Path) -> None:
    read = read_network_record if study.name == "networks" else read_record
    spans: dict[str, list[tuple[float, float, str]]] = {}
    for path in study.glob("records/*.json"):
        record = read(path)
        begin = datetime.datetime.fromisoformat(record["provenance"]["started_at"]).timestamp()
        end = begin + record["provenance"]["duration_s"]
        spans.setdefault(device_of(record), []).append((begin, end, path.name))
    for jobs in spans.values():
        for (_, end, first), (begin, _, second) in itertools.pairwise(sorted(jobs)):
            assert begin >= end - 0.001, f"{first} and {second}"  # times are rounded to milliseconds


def test_a_run_on_a_cpu_can_be_published_too() -> None:
    content = record_content()
    assert content["device"]["type"] == "cpu"
    assert device_of(content) == content["provenance"]["host"]["id_hash"]
