"""A job of this study: the entries of some subject, measured one after the other, into one record."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ksmm.measure import provenance
from ksmm.measure.attempt import Attempts
from ksmm.measure.earlier import Earlier
from ksmm.measure.files import prepare_folder
from ksmm.measure.job import deadline_seconds
from ksmm.measure.journal import Journal
from ksmm.measure.measurement import utc_now
from ksmm.measure.protocol import Protocol
from ksmm.measure.recording import finish, recording
from ksmm.networks.entry import Entry
from ksmm.networks.identity import identities_in, identity_of
from ksmm.networks.measure import measure
from ksmm.networks.measurement import NetworkMeasurement
from ksmm.networks.records import read_record

logger = logging.getLogger(__name__)

_COMPILING_S = 300.0
"""What a compiler may take on top of what measuring may."""


def run_job(
    entries: Sequence[Entry],
    *,
    device_type: str,
    protocol: Protocol,
    record: Path,
    journal: Path,
    keep_journal: bool = False,
    busy_gpu_max_wait_s: float = 0.0,
    restart: Callable[[], NoReturn] | None = None,
) -> None:
    """Measures all of it and writes the record; what goes wrong on the way is a status in it.

    Each measurement is journalled as soon as it is there, so a job that is stopped and run again with the same
    arguments measures only what is missing, unless it gets another GPU: the measurements of a record are of one. The
    device is locked; this must be the first use of CUDA in the process.

    Args:
        entries: at least one.
        device_type: "cpu" or "cuda".
        protocol: see Protocol; a product in it is a forward pass here.
        record: the file to write.
        journal: a folder, which several jobs may share.
        keep_journal: whether what is in the record stays in the journal, too; why, says ksmm.measure.job.run_job.
        busy_gpu_max_wait_s: for how many seconds to wait for a GPU on which another process computes.
        restart: what ends this process and starts a new one with the same arguments (ksmm.measure.job.reexecute), for a
            CUDA error that poisons the process and for a compiler that never ends.

    Raises:
        ValueError: no entries.
        DeviceAbsentError: no such device.
        UnwritableFolderError: nothing could be written to one of the folders.
        PoisonedNetworkError: a CUDA error that this process cannot recover from, and no restart was given.
    """
    if not entries:
        raise ValueError(f"there is nothing to measure for {record}; give at least one entry")
    for folder in (record.parent, journal):
        prepare_folder(folder)
    kept = Journal(journal, NetworkMeasurement)
    with recording(record.stem, device_type, protocol.to_dict(), busy_gpu_max_wait_s) as content:
        content["provenance"]["software"]["versions"] |= provenance.versions("transformers", "timm")
        identities = [identity_of(entry, content) for entry in entries]
        earlier = Earlier(record, content, read_record, identities_in, NetworkMeasurement)
        attempts = Attempts(kept, deadline_seconds(protocol) + _COMPILING_S, restart, earlier)
        measurements = [
            _found_or_measured(entry, identity, protocol, device_type, attempts, f"[{number}/{len(entries)}]")
            for number, (entry, identity) in enumerate(zip(entries, identities, strict=True), start=1)
        ]
    earlier.tell(len(entries))
    finish(content, measurements, record, kept, identities, keep_journal)


def _found_or_measured(
    entry: Entry, identity: dict[str, Any], protocol: Protocol, device_type: str, attempts: Attempts, number: str
) -> NetworkMeasurement:
    found = attempts.find(identity)
    if found is not None:
        logger.info("%s %s: measured before", number, entry)
        return found

    def unmeasured(status: str, reason: str) -> NetworkMeasurement:
        return NetworkMeasurement(entry, status, reason, started_at=utc_now())

    measurement = attempts.make(entry, identity, lambda: measure(entry, protocol, device_type), unmeasured)
    logger.info("%s %s: %s", number, entry, summary(measurement))
    return measurement


def summary(measurement: NetworkMeasurement) -> str:
    """One measurement in a few words, for the log."""
    if measurement.status != "ok":
        return f"{measurement.status} ({measurement.reason})"
    share = measurement.iqr_s / measurement.median_s
    return f"{measurement.median_s * 1e3:.4g} ms, IQR {share:.1%}, relative error {measurement.relative_error:.1e}"
