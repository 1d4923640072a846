"""Measures one entry: built, checked against its dense equivalent, then timed; what goes wrong becomes a status."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from typing import Any

import torch

from ksmm.measure import memory, nvidia, timer
from ksmm.measure.check import fault_of_error
from ksmm.measure.errors import PoisonedError, is_poison, one_line
from ksmm.measure.measurement import utc_now
from ksmm.measure.protocol import Protocol
from ksmm.measure.samples import interquartile_range, median
from ksmm.networks.accuracy import dense_tolerance, precision, tolerance
from ksmm.networks.build import build_network
from ksmm.networks.entry import CLASSES, Entry
from ksmm.networks.measurement import NetworkMeasurement
from ksmm.networks.modes import prepare
from ksmm.networks.network import Network, UnavailableError
from ksmm.problem import DTYPES
from ksmm.reference import relative_error
from ksmm.replace import Rule, count_parameters, linear_operations


class PoisonedNetworkError(PoisonedError):
    """A CUDA error after which this process cannot use the device any more, where a new process can.

    Attributes:
        measurement: what was being measured; ok where that was over, and only giving back its memory failed.
    """

    def __init__(self, measurement: NetworkMeasurement) -> None:
        super().__init__(f"{measurement.entry}: {measurement.reason}")
        self.measurement = measurement


def measure(entry: Entry, protocol: Protocol, device_type: str, rule: Rule | None = None) -> NetworkMeasurement:
    """Checks what a network computes and, if it is right, times its forward pass with the project's timer.

    The first and the last item of the batch, as they come out of what is timed, are compared with the dense
    equivalent in float64.

    Args:
        entry: what to measure.
        protocol: how it is timed; a "product" in it is a forward pass here.
        device_type: "cpu" or "cuda".
        rule: for the chains; by default that of the entry's name for them.

    Raises:
        PoisonedNetworkError: a CUDA error that this process does not recover from.
    """
    started_at, start = utc_now(), time.monotonic()
    facts: dict[str, Any] = {}
    poisoned = False
    try:
        reason = unsupported(entry, device_type)
        if reason is not None:
            facts |= {"status": "skipped", "reason": reason}
        else:
            with torch.no_grad(), precision(entry.accuracy_class):
                _measure(entry, protocol, device_type, rule, facts)
    except UnavailableError as error:
        facts |= {"status": "skipped", "reason": one_line(error)}
    except Exception as error:  # noqa: BLE001 - a compiler, a model may raise anything; the other entries must go on
        if memory.is_out_of_memory(error):
            facts |= {"status": "out_of_memory", "reason": one_line(error)}
        else:
            facts |= {"status": "failed", "reason": f"{type(error).__name__}: {one_line(error)}"}
            poisoned = is_poison(error)
    gc.collect()  # a network, and an exception's frames, hold tensors in cycles
    if not poisoned:
        poisoned = not _released(device_type, facts)
    measurement = NetworkMeasurement(entry, started_at=started_at, duration_s=time.monotonic() - start, **facts)
    if poisoned:
        raise PoisonedNetworkError(measurement)
    return measurement


def _released(device_type: str, facts: dict[str, Any]) -> bool:
    """Whether what the entry held could be given back: not always after a capture that failed. A time stays."""
    try:
        memory.release_memory(device_type)
    except RuntimeError as error:
        if facts["status"] != "ok":
            facts["reason"] += f"; then releasing memory failed: {one_line(error)}"
        return False
    return True


def unsupported(entry: Entry, device_type: str) -> str | None:
    """None if there are the entry's accuracy class and mode on a kind of device, else why not."""
    if device_type != "cuda" and entry.accuracy_class == "tf32":
        return "TF32 is a precision of CUDA devices"
    if device_type != "cuda" and entry.mode.endswith("cuda_graph"):
        return "CUDA graphs need a CUDA device"
    return None


def _measure(entry: Entry, protocol: Protocol, device_type: str, rule: Rule | None, facts: dict[str, Any]) -> None:
    """Adds to `facts` all that is found out, as soon as it is."""
    network = build_network(entry, device_type, protocol.seed, rule)
    facts["parameters"] = count_parameters(network.module)
    facts["operations_per_row"] = linear_operations(network.module)
    items = sorted({0, entry.batch_size - 1})
    reference = network.equivalent_output(items, torch.float64)
    allowed = _tolerance(entry, network, items, reference)
    if not math.isfinite(allowed):
        reason = f"the dense equivalent overflows in {CLASSES[entry.accuracy_class]}, so that nothing can be checked"
        facts |= {"status": "failed", "reason": reason}
        return
    facts["tolerance"] = allowed
    run = prepare(network, entry.mode)
    error = relative_error(_written_anew(run)[items], reference)
    facts["relative_error"] = error if math.isfinite(error) else None
    reason = fault_of_error(error, facts["tolerance"])
    if reason is not None:
        facts |= {"status": "wrong", "reason": reason}
        return
    estimate = timer.estimate_seconds(run, protocol, device_type)
    if estimate > protocol.max_seconds_per_run:
        limit = f"max_seconds_per_run is {protocol.max_seconds_per_run:g} s"
        facts |= {"status": "too_slow", "reason": f"one forward pass takes {estimate:.3g} s; {limit}"}
        return
    timing = timer.time_product(run, protocol, device_type, estimate)
    facts |= {
        "status": "ok",
        "samples_s": timing.samples_s,
        "runs_per_sample": timing.runs_per_sample,
        "protocol_met": timing.protocol_met,
        "median_s": median(timing.samples_s),
        "iqr_s": interquartile_range(timing.samples_s),
        "device_state": nvidia.device_state() if device_type == "cuda" else {},
    }


def _written_anew(run: Callable[[], torch.Tensor]) -> torch.Tensor:
    """The output of a run after its memory held NaN: a replay that does not write it would pass with what was there."""
    run().fill_(math.nan)
    return run()


def _tolerance(entry: Entry, network: Network, items: list[int], reference: torch.Tensor) -> float:
    if entry.is_dense:
        return dense_tolerance(entry.accuracy_class)
    dense = network.equivalent_output(items, DTYPES[CLASSES[entry.accuracy_class]])
    return tolerance(entry.accuracy_class, relative_error(dense, reference))
