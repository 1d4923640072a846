"""Records as run_job writes them, for tests that need some without measuring."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from ksmm.measure.measurement import Measurement
from ksmm.measure.protocol import Protocol
from ksmm.measure.records import write_record
from ksmm.networks.measurement import NetworkMeasurement


def measurement(**changes: Any) -> Measurement:
    values: dict[str, Any] = {
        "pattern": (1, 192, 48, 2),
        "batch_size": 25088,
        "dtype": "float32",
        "layout": "batch_first",
        "implementation": "bmm",
        "part": "whole",
        "status": "ok",
        "samples_s": (1e-4, 2e-4, 3e-4),
        "runs_per_sample": 10,
        "median_s": 2e-4,
        "iqr_s": 1e-4,
        "protocol_met": False,
        "relative_error": 1.3e-7,
        "tolerance": 1.8e-6,
        "started_at": "2026-01-02T03:04:05.678+00:00",
        "duration_s": 0.5,
    }
    return Measurement(**{**values, **changes})


def energy(**changes: Any) -> dict[str, Any]:
    """What belongs to the times of `measurement`, at 300 W, of which 60 at rest."""
    values: dict[str, Any] = {
        "counter": "NVML nvidia_gpu_0",
        "counter_period_s": 0.1,
        "samples_j": [3e-2, 6e-2, 9e-2],
        "runs": [4000.5, 3000.0, 2000.0],
        "energy_j": 6e-2,
        "iqr_j": 3e-2,
        "above_idle_j": 4.8e-2,
        "power_w": 300.0,
        "idle_before_w": 59.0,
        "idle_after_w": 61.0,
        "quantisation": 0.01,
    }
    return {**values, **changes}


def untimed(status: str = "skipped", reason: str = "not here", **changes: Any) -> Measurement:
    timeless = {"samples_s": (), "runs_per_sample": 0, "median_s": None, "iqr_s": None, "protocol_met": None}
    return measurement(status=status, reason=reason, relative_error=None, **{**timeless, **changes})


def network_measurement(**changes: Any) -> NetworkMeasurement:
    """A forward pass, of the study networks; changes may be of its entry, too."""
    entry = {"network": "vit_tiny", "part": "whole", "chains": "paper", "implementation": "bmm", "mode": "eager"}
    entry |= {"accuracy_class": "strict", "batch_size": 2, "tokens": 17, "cached_tokens": 0}
    timed = measurement().to_dict()
    kept = {field.name for field in dataclasses.fields(NetworkMeasurement)} & set(timed)
    values = {name: timed[name] for name in kept} | {"parameters": 1000, "operations_per_row": 2000} | entry
    return NetworkMeasurement.from_dict({**values, **changes})


def record_content(**changes: Any) -> dict[str, Any]:
    content = {
        "job": "1x192x48x2",
        "device": {"slug": "cpu-x86_64", "name": "A processor", "type": "cpu", "threads": 2},
        "protocol": Protocol().to_dict(),
        "provenance": {
            "started_at": "2026-01-02T03:04:05.000+00:00",
            "duration_s": 60.0,
            "software": {
                "versions": {"ksmm": "0.1.0", "python": "3.11.7", "torch": "2.13.0"},
                "cuda": None,
                "git": {"commit": "0" * 40, "dirty": False},
                "kernel": None,
            },
            "host": {"id_hash": "0123456789ab", "load_average": [0.1, 0.2, 0.3]},
            "kernel_hash": "",
            "device_before": {},
            "device_after": {},
        },
        "measurements": [measurement().to_dict(), untimed(implementation="bsr").to_dict()],
    }
    return {**content, **changes}


def write_sample(path: Path, *measurements: Measurement, **changes: Any) -> Path:
    entries = [entry.to_dict() for entry in measurements] or record_content()["measurements"]
    write_record(path, record_content(job=path.stem, measurements=entries, **changes))
    return path
