"""What the device itself can do: copy bandwidth, and the rate of a large matrix product in each dtype."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from ksmm.measure import memory, nvidia, provenance, timer
from ksmm.measure.ceilings_file import Ceilings, write_ceilings
from ksmm.measure.files import prepare_folder
from ksmm.measure.idle import wait_until_idle
from ksmm.measure.lock import device_lock
from ksmm.measure.measurement import utc_now
from ksmm.problem import parse_dtype

logger = logging.getLogger(__name__)

_LARGEST_SIZE = {"cpu": 2048, "cuda": 8192}
_SMALLEST_SIZE = 256

MOST_RUNS_PER_SAMPLE = 10
"""Copies or matrix products that are timed together; those of files without the key max_runs_per_sample were single."""


def measure_ceilings(
    device_type: str,
    dtypes: Sequence[str],
    record: Path,
    busy_gpu_max_wait_s: float = 0.0,
    seconds: float = 1.0,
) -> None:
    """Measures the ceilings, the device locked, and writes them as JSON.

    Args:
        device_type: "cpu" or "cuda".
        dtypes: names, at least one.
        record: the file to write.
        busy_gpu_max_wait_s: for how many seconds to wait for a GPU on which another process computes.
        seconds: see quick_ceilings.

    Raises:
        ValueError: an unknown dtype.
        DeviceAbsentError: no such device.
        UnwritableFolderError: nothing can be written there.
    """
    for dtype in dtypes:
        parse_dtype(dtype)
    prepare_folder(record.parent)
    with device_lock(device_type) as device:
        busy = wait_until_idle(device, busy_gpu_max_wait_s)
        started_at = utc_now()
        ceilings = quick_ceilings(device_type, dtypes, seconds)
        content = {
            "copy_bytes_per_s": ceilings.copy_bytes_per_s,
            "operations_per_s": ceilings.operations_per_s,
            "max_runs_per_sample": MOST_RUNS_PER_SAMPLE,
            "seconds_per_ceiling": seconds,
            "device": provenance.device_facts(device_type),
            "device_busy": busy,
            "device_after": nvidia.device_state() if device_type == "cuda" else {},
            "started_at": started_at,
            "software": provenance.software_facts(),
            "host": provenance.host_facts(),
        }
    write_ceilings(record, content)


def quick_ceilings(device_type: str, dtypes: Sequence[str], seconds: float = 1.0) -> Ceilings:
    """Measures the ceilings, without lock or file.

    Args:
        device_type: "cpu" or "cuda".
        dtypes: names.
        seconds: how long each ceiling is tried for, about; the best is kept.
    """
    with torch.no_grad(), timer.strict_precision():
        bandwidth = copy_bandwidth(device_type, seconds)
        memory.release_memory(device_type)
        logger.info("copy bandwidth: %.4g GB/s", bandwidth / 1e9)
        rates = {}
        for dtype in dtypes:
            rates[dtype] = matrix_product_rate(device_type, parse_dtype(dtype), seconds)
            memory.release_memory(device_type)
            logger.info("%s matrix product: %.4g TFLOP/s", dtype, rates[dtype] / 1e12)
    return Ceilings(provenance.device_slug(device_type), bandwidth, rates)


def copy_bandwidth(device_type: str, seconds: float) -> float:
    """Bytes read and written per second of copying a tensor several times as large as the last-level cache."""
    source, target = copy_operands(device_type)
    bandwidth = 2 * source.numel() / _best(lambda: target.copy_(source), device_type, seconds)
    return float(f"{bandwidth:.6g}")


def copy_operands(device_type: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Source and target of a copy, bytes, several times as large as the last-level cache."""
    wanted = 2**32 if device_type == "cuda" else max(2**28, 4 * _last_level_cache_bytes())
    size = min(wanted, memory.available_bytes(device_type) // 8)
    source = torch.ones(max(size, 2**20), dtype=torch.uint8, device=device_type)
    return source, torch.empty_like(source)


def product_operands(device_type: str, dtype: torch.dtype, size: int | None = None) -> tuple[torch.Tensor, ...]:
    """Two square matrices, by default of the largest size that is tried, with normally distributed entries.

    A GPU draws less power, and so clocks higher, on zeros.
    """
    size = size or _LARGEST_SIZE[device_type]
    left, right = (torch.randn(size, size, device=device_type).to(dtype) for _ in range(2))
    return left, right


def matrix_product_rate(device_type: str, dtype: torch.dtype, seconds: float) -> float:
    """Operations (2·n³) per second of an n × n matrix product: the best over n, doubled while it stays quick."""
    rate, size = 0.0, _SMALLEST_SIZE
    while size <= _LARGEST_SIZE[device_type]:
        left, right = product_operands(device_type, dtype, size)
        best = _best(lambda left=left, right=right: left @ right, device_type, seconds / 4)
        rate = max(rate, 2 * size**3 / best)
        if 8 * best > seconds:
            break
        size *= 2
    return float(f"{rate:.6g}")


def _best(run: Callable[[], object], device_type: str, seconds: float) -> float:
    """Seconds of a run in the fastest of several samples, taken for about so many seconds.

    There are three at least, but where one takes longer than all of them should: that is the last.

    A sample is of runs back to back, as those of products are: waiting for an H200 adds 1 to 2 % to a single copy. They
    are fewer than MOST_RUNS_PER_SAMPLE where three samples of that many would take too long.
    """
    run()
    runs = max(1, min(MOST_RUNS_PER_SAMPLE, int(seconds / (3 * timer.seconds_of(run, device_type)))))

    def sample() -> None:
        for _ in range(runs):
            run()

    times: list[float] = []
    start = timer.clock()
    while len(times) < 3 or timer.clock() - start < seconds:
        times.append(timer.seconds_of(sample, device_type))
        if times[-1] > seconds:
            break
    return min(times) / runs


def _last_level_cache_bytes() -> int:
    """Of the processor; 32 MiB where the system does not say."""
    try:
        return max(os.sysconf("SC_LEVEL3_CACHE_SIZE"), 2**25)
    except (ValueError, OSError):
        return 2**25
