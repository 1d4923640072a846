"""What a byte moved and an operation cost a device at best, in joules: measured on a copy and a matrix product."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from ksmm.measure import nvidia, provenance, timer
from ksmm.measure.ceilings import copy_operands, product_operands
from ksmm.measure.ceilings_file import write_ceilings
from ksmm.measure.energy import EnergyMeter, open_meter
from ksmm.measure.energy_counter import CounterError, NoCounterError
from ksmm.measure.energy_protocol import EnergyProtocol
from ksmm.measure.energy_reading import EnergyReading, energy_values
from ksmm.measure.files import prepare_folder
from ksmm.measure.idle import wait_until_idle
from ksmm.measure.lock import device_lock
from ksmm.measure.measurement import rounded, utc_now
from ksmm.measure.memory import release_memory
from ksmm.measure.samples import median
from ksmm.problem import parse_dtype

logger = logging.getLogger(__name__)

_SECONDS = 20.0
"""What measuring one of them may take."""


def measure_energy_ceilings(
    device_type: str, dtypes: Sequence[str], protocol: EnergyProtocol, record: Path, busy_gpu_max_wait_s: float = 0.0
) -> None:
    """Measures them, the device locked, and writes them as JSON; without a counter, the reason.

    Args:
        device_type: "cpu" or "cuda".
        dtypes: names, at least one.
        protocol: see EnergyProtocol.
        record: the file to write.
        busy_gpu_max_wait_s: for how many seconds to wait for a GPU on which another process computes.

    Raises:
        ValueError: an unknown dtype.
        CounterError: the counter cannot be believed, or a large copy or product draws no more than rest; nothing is
            written, so that it is measured again.
        DeviceAbsentError: no such device.
        UnwritableFolderError: nothing can be written there.
    """
    for dtype in dtypes:
        parse_dtype(dtype)
    prepare_folder(record.parent)
    with device_lock(device_type) as device:
        busy = wait_until_idle(device, busy_gpu_max_wait_s)
        content: dict[str, Any] = {
            "started_at": utc_now(),
            "device": provenance.device_facts(device_type),
            "device_busy": busy,
            "protocol": protocol.to_dict(),
            "software": provenance.software_facts(),
            "host": provenance.host_facts(),
        }
        try:
            meter = open_meter(device_type, protocol)
            content |= {"status": "ok", "reason": "", **_costs(meter, device_type, dtypes)}
        except NoCounterError as error:
            logger.info("no energy ceilings: %s", error)
            content |= {"status": "skipped", "reason": str(error)}
        content["device_after"] = nvidia.device_state() if device_type == "cuda" else {}
    write_ceilings(record, content)


def _costs(meter: EnergyMeter, device_type: str, dtypes: Sequence[str]) -> dict[str, Any]:
    with torch.no_grad(), timer.strict_precision():
        copied, moved = _copy(meter, device_type)
        readings, costs = {}, {}
        for dtype in dtypes:
            release_memory(device_type)
            readings[dtype], operations = _product(meter, device_type, parse_dtype(dtype))
            costs[dtype] = readings[dtype].above_idle_j / operations
        release_memory(device_type)
    return {
        "idle_w": median(tuple(reading.idle_after_w for reading in (copied, *readings.values()))),
        "joules_per_byte": copied.above_idle_j / moved,
        "joules_per_operation": costs,
        "readings": {"copy": _kept(copied), **{dtype: _kept(reading) for dtype, reading in readings.items()}},
    }


def _copy(meter: EnergyMeter, device_type: str) -> tuple[EnergyReading, int]:
    """Of random bytes, since constant ones cost less, and how many bytes are read and written."""
    source, target = copy_operands(device_type)
    source.random_(0, 256)
    return _reading(meter, lambda: target.copy_(source), device_type), 2 * source.numel()


def _product(meter: EnergyMeter, device_type: str, dtype: torch.dtype) -> tuple[EnergyReading, int]:
    """And how many operations it takes."""
    left, right = product_operands(device_type, dtype)
    out = torch.empty_like(left)
    return _reading(meter, lambda: torch.matmul(left, right, out=out), device_type), 2 * left.shape[0] ** 3


def _kept(reading: EnergyReading) -> dict[str, Any]:
    return rounded(energy_values(reading) | {"samples_s": reading.samples_s})


def _reading(meter: EnergyMeter, run: Callable[[], object], device_type: str) -> EnergyReading:
    run()
    estimate_s = timer.seconds_of(run, device_type)
    reading = meter.measure(run, estimate_s, _SECONDS)
    if reading.above_idle_j <= 0:
        raise CounterError(f"a large copy or product draws {reading.power_w:.4g} W, no more than rest does")
    logger.info("%.4g J in %.4g s at %.4g W", reading.energy_j, median(reading.samples_s), reading.power_w)
    return reading
