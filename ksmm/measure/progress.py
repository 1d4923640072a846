"""How far a run is: which pattern, of how many, and how much longer; judged from the records that are there."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ksmm.measure.records import RecordError, load_json


def progress_line(records: Path, total: int, job: str = "", settings: Mapping[str, Any] | None = None) -> str:
    """One line such as "pattern 7 of 36 (1,192,48,2), about 4 min left".

    What is left is the number of jobs without a record times the mean duration of those with one, divided by how many
    ran at once (several GPUs, a cluster).

    Args:
        records: the folder of records; what cannot be read in it is not counted.
        total: the number of jobs.
        job: the one that begins now ("1x192x48x2", or "<first>-to-<last>" for several patterns).
        settings: protocol, batch_size and dtypes of the run; a record of others is of another config, and is not
            counted. None counts all.
    """
    others = [path for path in sorted(records.glob("*.json")) if path.stem != job]
    spans = [span for path in others if (span := _span(path, settings)) is not None]
    number = min(len(spans) + 1, total)
    kind = "job" if "-to-" in job else "pattern"
    named = f" ({job.replace('-to-', ' to ').replace('x', ',')})" if job else ""
    return f"{kind} {number} of {total}{named}{_left(spans, total)}"


def _left(spans: list[tuple[float, float]], total: int) -> str:
    if not spans or len(spans) >= total:
        return ""
    worked = sum(duration for _, duration in spans)
    passed = max(start + duration for start, duration in spans) - min(start for start, _ in spans)
    at_once = max(1.0, worked / passed) if passed > 0 else 1.0
    return f", about {_spoken(worked / len(spans) * (total - len(spans)) / at_once)} left"


def _span(path: Path, settings: Mapping[str, Any] | None) -> tuple[float, float] | None:
    """Start (seconds since 1970) and duration of a record's job; None where it is not counted."""
    try:
        content = load_json(path)
        if settings is not None and _settings_of(content) != settings:
            return None
        provenance = content["provenance"]
        started = datetime.datetime.fromisoformat(provenance["started_at"]).timestamp()
        return started, float(provenance["duration_s"])
    except (OSError, RecordError, LookupError, TypeError, ValueError):
        return None


def _settings_of(content: Mapping[str, Any]) -> dict[str, Any]:
    measured = content["measurements"]
    return {
        "protocol": content["protocol"],
        "batch_size": measured[0]["batch_size"],
        "dtypes": {values["dtype"] for values in measured},
    }


def _spoken(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
