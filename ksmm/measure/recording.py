"""The record of a job, of whatever study: its conditions before and after, with the device locked between, its end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ksmm.measure import nvidia, provenance
from ksmm.measure.files import remove_unfinished
from ksmm.measure.idle import wait_until_idle
from ksmm.measure.implementation_hash import implementation_hashes
from ksmm.measure.journal import Journal
from ksmm.measure.lock import device_lock
from ksmm.measure.measurement import utc_now
from ksmm.measure.process import ended_politely
from ksmm.measure.records import write_record
from ksmm.tuning import remembered_hash


@contextlib.contextmanager
def recording(
    job: str, device_type: str, protocol: dict[str, Any], busy_gpu_max_wait_s: float = 0.0
) -> Iterator[dict[str, Any]]:
    """Holds the device, and yields what the record says but for its measurements; at the end, how it was then.

    Args:
        job: its name.
        device_type: "cpu" or "cuda", where this must be the first use of CUDA in the process.
        protocol: as it stands in the record.
        busy_gpu_max_wait_s: for how many seconds to wait for a GPU on which another process computes.

    Raises:
        DeviceAbsentError: no such device.
    """
    with ended_politely(), device_lock(device_type) as device:
        start = time.monotonic()
        conditions = {
            "started_at": utc_now(),
            "software": provenance.software_facts(),
            "host": provenance.host_facts(),
            "kernel_hash": provenance.kernel_hash(),
            "implementation_hashes": implementation_hashes(),
            "device_before": device_state(device_type),
            "device_busy": wait_until_idle(device, busy_gpu_max_wait_s),
        }
        device_facts = provenance.device_facts(device_type)
        conditions["tuning_hash"] = remembered_hash(device_facts["slug"], device_facts["name"])
        yield {
            "job": job,
            "device": device_facts,
            "protocol": protocol,
            "provenance": conditions,
        }
        conditions["device_after"] = device_state(device_type)
        conditions["duration_s"] = round(time.monotonic() - start, 3)


def finish(
    content: dict[str, Any],
    measurements: Sequence[Any],
    record: Path,
    journal: Journal,
    identities: list[dict[str, Any]],
    keep_journal: bool,
) -> None:
    """Writes the record with its measurements, and then forgets them in the journal, if it is not to keep them.

    Raises:
        OSError: the record cannot be written; the journal holds everything then.
    """
    content["measurements"] = [measurement.to_dict() for measurement in measurements]
    remove_unfinished(record)
    write_record(record, content)
    if not keep_journal:
        journal.remove(identities)


def device_state(device_type: str) -> dict[str, float]:
    """Clocks, power and temperature of the GPU that is measured on; nothing for a CPU."""
    return nvidia.device_state() if device_type == "cuda" else {}
