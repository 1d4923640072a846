"""What NVIDIA's management library says of the GPUs; empty where it, or nvidia-ml-py, is not there."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch


@functools.cache
def management_library() -> ModuleType | None:
    """The initialised module pynvml (package nvidia-ml-py), or None. It does not initialise CUDA."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _ask(question: str, *arguments: Any) -> Any:
    """The answer to one question of the library, None where it has none."""
    library = management_library()
    if library is None or None in arguments:
        return None
    try:
        answer = getattr(library, question)(*arguments)
    except library.NVMLError:
        return None
    return answer.decode() if isinstance(answer, bytes) else answer


def gpu_names() -> list[str]:
    """What CUDA_VISIBLE_DEVICES can hold, one entry per GPU in nvidia-smi's order: "GPU-…", or "MIG-…" of its parts."""
    names = []
    for index in range(_ask("nvmlDeviceGetCount") or 0):
        handle = _ask("nvmlDeviceGetHandleByIndex", index)
        parts = [
            _ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, part)
            for part in range(_ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0)
        ]
        found = [_ask("nvmlDeviceGetUUID", part) for part in parts if part is not None]
        names += found or [_ask("nvmlDeviceGetUUID", handle)]
    return [name for name in names if name]


def product_name(gpu: str) -> str | None:
    """The driver's name of a GPU, such as "NVIDIA H200"."""
    return _ask("nvmlDeviceGetName", _handle(gpu))


def driver_version() -> str | None:
    """The driver's version."""
    return _ask("nvmlSystemGetDriverVersion")


def device_state(gpu: str | None = None) -> dict[str, float]:
    """Clocks in MHz, power in W, temperature in °C and throttling reasons (a bit set) of a GPU; what is known of it.

    Args:
        gpu: its name; by default the GPU that this process computes on.
    """
    handle = _handle(gpu or current_gpu())
    library = management_library()
    if handle is None or library is None:
        return {}
    questions: dict[str, Callable[[], Any]] = {
        "sm_clock_mhz": lambda: _ask("nvmlDeviceGetClockInfo", handle, library.NVML_CLOCK_SM),
        "memory_clock_mhz": lambda: _ask("nvmlDeviceGetClockInfo", handle, library.NVML_CLOCK_MEM),
        "power_w": lambda: _scaled(_ask("nvmlDeviceGetPowerUsage", handle)),
        "power_limit_w": lambda: _scaled(_ask("nvmlDeviceGetEnforcedPowerLimit", handle)),
        "temperature_c": lambda: _ask("nvmlDeviceGetTemperature", handle, library.NVML_TEMPERATURE_GPU),
        "throttle_reasons": lambda: _ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle),
    }
    answers = {name: question() for name, question in questions.items()}
    return {name: answer for name, answer in answers.items() if answer is not None}


def utilisation_percent(gpu: str) -> float | None:
    """How much of the last sampling period (up to 1 s) anything computed on a GPU for; None where it is not known."""
    rates = _ask("nvmlDeviceGetUtilizationRates", _handle(gpu))
    return None if rates is None else float(rates.gpu)


def other_processes(gpu: str) -> int | None:
    """How many processes besides this one hold a compute context on a GPU; None where it is not known.

    In a container NVML may see none of those outside.
    """
    processes = _ask("nvmlDeviceGetComputeRunningProcesses", _handle(gpu))
    return None if processes is None else sum(process.pid != os.getpid() for process in processes)


def _scaled(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def current_gpu() -> str | None:
    """The name of the GPU that this process computes on; None before CUDA is initialised or chosen."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if visible.startswith(("GPU-", "MIG-")) and "," not in visible:
        return visible
    if not torch.cuda.is_initialized():
        return None
    with contextlib.suppress(AttributeError):  # PyTorch before 2.6 does not tell the UUID
        return f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"
    return None


def _handle(gpu: str | None) -> Any:
    return None if gpu is None else _ask("nvmlDeviceGetHandleByUUID", gpu)
