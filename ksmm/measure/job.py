"""A job: some patterns × dtypes × layouts × implementations, measured one after the other, into one record."""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ksmm.measure.attempt import Attempts
from ksmm.measure.check import Reference, tolerance
from ksmm.measure.earlier import Earlier
from ksmm.measure.files import prepare_folder
from ksmm.measure.identity import identities_in, identity_of
from ksmm.measure.journal import Journal
from ksmm.measure.lock import environment_at_start
from ksmm.measure.measurement import Measurement, utc_now
from ksmm.measure.protocol import Protocol
from ksmm.measure.recording import finish, recording
from ksmm.measure.records import read_record
from ksmm.measure.study import Study
from ksmm.measure.tasks import Task, list_tasks
from ksmm.names import dtype_name
from ksmm.patterns import Pattern

logger = logging.getLogger(__name__)


def run_job(
    patterns: Sequence[Pattern],
    *,
    device_type: str,
    batch_size: int,
    dtypes: Sequence[str],
    layouts: Sequence[str],
    implementations: Sequence[str],
    protocol: Protocol,
    record: Path,
    journal: Path,
    keep_journal: bool = False,
    busy_gpu_max_wait_s: float = 0.0,
    restart: Callable[[], NoReturn] | None = None,
    study: Study | None = None,
) -> None:
    """Measures all of it and writes the record; what goes wrong on the way is a status in it.

    Each measurement is journalled as soon as it is there. A job that is stopped and run again with the same arguments
    measures only what is missing, and one with other arguments what its earlier records (ksmm.measure.earlier) do not
    hold. The device is locked while measuring; on CUDA this must be the first use of CUDA in the process, so that a
    free GPU can be chosen.

    Args:
        patterns: at least one.
        device_type: "cpu" or "cuda".
        batch_size: B, at least 1.
        dtypes: by name, at least one.
        layouts: at least one.
        implementations: by name, at least one; bmm is also measured in part, its line 2 alone.
        protocol: see Protocol.
        record: the file to write.
        journal: a folder, which several jobs may share.
        keep_journal: whether what is in the record stays in the journal, too, until that is aggregated: a pipeline may
            discard a good record (it was killed, another job of the group failed, the clock went back).
        busy_gpu_max_wait_s: to wait for a GPU on which another process computes; then it is measured, and marked.
        restart: what ends this process and starts one that does the same; a script gives `reexecute`. With it the job
            goes on after a CUDA error that poisons the process, and after a measurement that never ends.
        study: what is measured; by default the time, with the protocol.

    Raises:
        ValueError: an unknown name, an empty list, or a batch size below 1.
        DeviceAbsentError: no such device.
        UnwritableFolderError: nothing could be written to one of the folders.
        PoisonedDeviceError: a lasting CUDA error, journalled as failed, without restart; a new process does the rest.
    """
    study = study or Study(protocol)
    tasks = list_tasks(patterns, device_type, batch_size, dtypes, layouts, implementations)
    tasks = [task for task in tasks if task.part in study.parts]
    for folder in (record.parent, journal):
        prepare_folder(folder)
    kept = Journal(journal)
    with recording(record.stem, device_type, study.protocol_values(), busy_gpu_max_wait_s) as content:
        identities = [identity_of(task, content) for task in tasks]
        study.prepare(device_type, tasks)
        earlier = Earlier(record, content, read_record, identities_in, Measurement)
        attempts = Attempts(kept, deadline_seconds(study.protocol) + study.extra_seconds, restart, earlier)
        measurements = list(_measure_all(tasks, identities, study, attempts))
    earlier.tell(len(tasks))
    finish(content, measurements, record, kept, identities, keep_journal)


def _measure_all(
    tasks: list[Task], identities: list[dict[str, Any]], study: Study, attempts: Attempts
) -> Iterator[Measurement]:
    """Takes what was measured before and measures the rest; tasks on one problem share its operands."""
    reference, shared = None, None
    bench = None
    for number, (task, identity) in enumerate(zip(tasks, identities, strict=True), start=1):
        found = attempts.find(identity)
        if found is not None:
            logger.info("[%d/%d] %s: measured before", number, len(tasks), task)
            yield found
            continue
        problem = task.problem
        if shared != (problem.pattern, problem.dtype):
            shared, reference = (problem.pattern, problem.dtype), Reference(problem)
        if bench is None or bench.problem != problem:
            bench = None  # the operands before must be gone when the next are made
            bench = study.bench(problem, reference)
        measurement = attempts.make(
            task,
            identity,
            functools.partial(bench.measure, task.implementation, task.part),
            functools.partial(_unmeasured, task),
        )
        logger.info("[%d/%d] %s: %s", number, len(tasks), task, summary(measurement))
        yield measurement


def deadline_seconds(protocol: Protocol) -> float:
    """When a measurement is given up for lost: well above what operands, check, trials and timing take together."""
    return 60 + 20 * protocol.max_seconds_per_run + 4 * protocol.max_seconds


def _unmeasured(task: Task, status: str, reason: str) -> Measurement:
    problem = task.problem
    return Measurement(
        pattern=tuple(problem.pattern),
        batch_size=problem.batch_size,
        dtype=dtype_name(problem.dtype),
        layout=problem.layout,
        implementation=task.implementation.name,
        part=task.part,
        status=status,
        reason=reason,
        tolerance=tolerance(problem.dtype, problem.pattern.c),
        started_at=utc_now(),
    )


def summary(measurement: Measurement) -> str:
    """One measurement in a few words, for the log."""
    if measurement.status != "ok":
        return f"{measurement.status} ({measurement.reason})"
    share = measurement.iqr_s / measurement.median_s
    energy = measurement.energy
    joules = f"{energy['energy_j']:.4g} J at {energy['power_w']:.4g} W, " if energy is not None else ""
    spoken = f"{measurement.median_s * 1e3:.4g} ms, IQR {share:.1%}"
    return f"{joules}{spoken}, relative error {measurement.relative_error:.1e}"


def reexecute() -> NoReturn:
    """Replaces this process by a new one with the same command line: what a script gives to run_job as restart."""
    logger.warning("starting again in a new process")
    for handler in logging.getLogger().handlers:
        handler.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment_at_start())
