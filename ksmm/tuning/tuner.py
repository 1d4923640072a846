"""Measures every configuration of the kernel, and its rivals, and writes what was fastest into a tuning file.

Nothing is compiled here. Each problem is on disk as soon as it is measured, so a run that is stopped loses at most one,
and goes on where it stopped.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ksmm.implementations import get_implementation
from ksmm.measure import memory
from ksmm.measure.bench import PoisonedDeviceError
from ksmm.measure.check import Reference
from ksmm.measure.errors import one_line
from ksmm.measure.files import prepare_folder
from ksmm.measure.idle import wait_until_idle
from ksmm.measure.job import deadline_seconds
from ksmm.measure.lock import device_lock
from ksmm.measure.process import ended_politely
from ksmm.measure.protocol import Protocol
from ksmm.tuning.contest import Contest, NothingToTuneError
from ksmm.tuning.entry import Entry, bucket, key_of
from ksmm.tuning.file import TuningFile, write_tuning
from ksmm.tuning.knowledge import forget
from ksmm.tuning.opening import enter_facts, opened
from ksmm.tuning.tasks import Task
from ksmm.tuning.watch import Watch

logger = logging.getLogger(__name__)

PROTOCOL = Protocol(
    min_samples=5,
    max_samples=20,
    runs_per_sample=10,
    target_relative_iqr=0.02,
    max_seconds=0.1,
    max_seconds_per_run=0.5,
)
"""Less than the benchmark's: tuning compares, and there is much to compare."""

_DECISIVE = ("torch", "cuda", "kernel_hash", "cuda_architectures", "protocol")
"""What is measured again when one of these facts changes."""


@dataclass
class Outcome:
    """What a run of the tuner did: how many problems it measured, found measured, gave up and did not come to."""

    measured: int = 0
    known: int = 0
    given_up: int = 0
    left: int = 0
    ratios: list[float] = dataclasses.field(default_factory=list)
    """Of the problems measured: the time of the cost model's choice over that of the best configuration."""


def tune(
    tasks: Sequence[Task],
    file: Path,
    *,
    protocol: Protocol = PROTOCOL,
    max_seconds: float = float("inf"),
    again: bool = False,
    busy_gpu_max_wait_s: float = 600.0,
    restart: Callable[[], NoReturn] | None = None,
) -> Outcome:
    """Measures what the file does not know yet, and adds it to the file; the device is locked meanwhile.

    Args:
        tasks: at least one, all on the same kind of device.
        file: the tuning file; it is made if it is not there.
        protocol: how a number is measured.
        max_seconds: no problem is begun after so long.
        again: whether to measure what the file knows, too.
        busy_gpu_max_wait_s: for how many seconds to wait for a GPU on which another process computes.
        restart: what ends this process and starts one that does the same (ksmm.measure.job.reexecute), for a
            configuration that never ends. Without it that is waited for.

    Raises:
        NothingToTuneError: the kernel does not run here; the message says why.
        TuningError: the file is there, but is broken or another device's.
        DeviceAbsentError: no such device.
        UnwritableFolderError: the file's folder cannot be written to.
        PoisonedDeviceError: a CUDA error that this process cannot recover from. The file remembers what caused it, and
            a new process leaves that out.
    """
    device_type = tasks[0].problem.device_type
    prepare_folder(file.parent)
    with ended_politely(), device_lock(device_type) as device:
        reason = get_implementation("kernel").supports(tasks[0].problem)
        if reason is not None:
            raise NothingToTuneError(f"there is nothing to tune: {reason}")
        tuning = opened(file, device_type)
        number = enter_facts(tuning, device_type, protocol, wait_until_idle(device, busy_gpu_max_wait_s))
        kernel_hash = tuning.measured_with[number]["kernel_hash"]
        watch = Watch(file, tuning, kernel_hash, deadline_seconds(protocol), restart)
        try:
            return _tune_all(tasks, tuning, file, number, protocol, time.monotonic() + max_seconds, again, watch)
        finally:
            forget()


def _tune_all(
    tasks: Sequence[Task],
    tuning: TuningFile,
    file: Path,
    number: int,
    protocol: Protocol,
    deadline: float,
    again: bool,
    watch: Watch,
) -> Outcome:
    outcome, reference, shared = Outcome(), None, None
    for position, task in enumerate(tasks, start=1):
        if not again and _is_known(task, tuning, number):
            outcome.known += 1
            continue
        if time.monotonic() >= deadline:
            outcome.left += 1
            continue
        problem = task.problem
        if shared != (problem.pattern, problem.dtype, problem.batch_size):
            shared, reference = (problem.pattern, problem.dtype, problem.batch_size), Reference(problem)
        entry = _tune(task, number, protocol, reference, watch)
        if entry is None:
            outcome.given_up += 1
            continue
        tuning.add(entry)
        write_tuning(file, tuning)
        outcome.measured += 1
        outcome.ratios.append(entry.untuned_ms / entry.configuration_ms)
        logger.info("[%d/%d] %s: %s", position, len(tasks), task, _described(entry))
    return outcome


def _tune(task: Task, number: int, protocol: Protocol, reference: Reference, watch: Watch) -> Entry | None:
    """The entry of one problem; None, with a warning, if none of the kernel's configurations could be timed."""
    name, problem = str(task), task.problem
    shortage = memory.shortage(
        memory.operand_bytes(problem) + memory.product_bytes(problem, "kernel"), problem.device_type
    )
    if shortage is not None:
        logger.warning("%s: out of memory: %s", task, shortage)
        return None
    watched = functools.partial(watch.running, name)
    contest = Contest(problem, task.precision == "strict", protocol, reference, watch.excluded(name), watched)
    try:
        ranking = contest.run()
    except PoisonedDeviceError as error:
        watch.add(name, contest.running, error.measurement.reason)
        raise
    except (RuntimeError, MemoryError) as error:
        if not memory.is_out_of_memory(error):
            raise
        logger.warning("%s: out of memory (%s)", task, one_line(error))
        return None
    if ranking is None:
        logger.warning("%s: no configuration of the kernel could be timed", task)
        return None
    first, last = bucket(problem.batch_size)
    pattern, dtype, layout, precision = key_of(problem, task.precision)
    return Entry(
        pattern=pattern,
        first_batch=first,
        last_batch=last,
        batch_size=problem.batch_size,
        dtype=dtype,
        layout=layout,
        precision=precision,
        measured_with=number,
        **ranking,
    )


def _is_known(task: Task, tuning: TuningFile, number: int) -> bool:
    now = tuning.measured_with[number]
    for entry in tuning.entries:
        same = entry.key == key_of(task.problem, task.precision)
        if same and entry.first_batch <= task.problem.batch_size <= entry.last_batch:
            then = tuning.measured_with[entry.measured_with]
            return all(then.get(name) == now.get(name) for name in _DECISIVE)
    return False


def _described(entry: Entry) -> str:
    tuned = f"{entry.configuration or 'kernel'} {entry.configuration_ms:.4g} ms"
    untuned = f"untuned {entry.untuned_configuration or 'kernel'} {entry.untuned_ms:.4g} ms"
    return ", ".join([tuned, untuned, *(f"{name} {ms:.4g} ms" for name, ms in entry.rivals_ms.items())])
