"""The energy counter of a device, read through pyJoules: NVML's of a GPU, RAPL's of a CPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ksmm.measure import nvidia

NVML_UNIT_J = 1e-3
"""pyJoules hands on NVML's own unit for a GPU, the millijoule."""

RAPL_UNIT_J = 1e-6
"""… and the microjoule of the Linux powercap interface for a CPU."""


class NoCounterError(RuntimeError):
    """The device has no energy counter that this process may read; the message is the reason."""


class CounterError(RuntimeError):
    """An energy counter that cannot be believed: it stands still, reads zero, went backwards, or stopped answering."""


@dataclass(frozen=True)
class Counter:
    """A counter that only ever grows.

    Attributes:
        name: what is counted, such as "NVML nvidia_gpu_0" or "RAPL package_0 + dram_0".
        read: joules since some moment in the past.
        wraps: whether it starts at 0 again once in a while, as RAPL's does.
    """

    name: str
    read: Callable[[], float]
    wraps: bool = False


def open_counter(device_type: str) -> Counter:
    """The counter of the device that this process computes on.

    A GPU is found by its UUID, since NVML's indices know nothing of CUDA_VISIBLE_DEVICES. CUDA is initialised for that.

    Raises:
        NoCounterError: there is none.
        ValueError: neither "cpu" nor "cuda".
    """
    if device_type == "cuda":
        return _gpu_counter()
    if device_type != "cpu":
        raise ValueError(f"unknown device {device_type!r}; choose cpu or cuda")
    return _cpu_counter()


def reason_absent(device_type: str) -> str | None:
    """Why no energy can be measured on a kind of device, None if it can; CUDA is not initialised.

    For a GPU it asks whether NVML is there at all; only a job that has its GPU can say more.
    """
    if device_type == "cuda":
        return None if nvidia.gpu_names() else _NO_NVML
    try:
        _cpu_counter()
    except NoCounterError as error:
        return str(error)
    return None


_NO_PYJOULES = "no energy counter: pyJoules is not installed"
_NO_NVML = "no energy counter: NVML sees no GPU (no driver, or nvidia-ml-py is not installed)"


def nvml_index() -> int:
    """The NVML index of the GPU that PyTorch computes on, found by its UUID.

    Raises:
        NoCounterError: it is a part of a GPU (MIG), which has no counter of its own, or NVML does not know it.
    """
    torch.cuda.init()
    library = nvidia.management_library()
    if library is None:
        raise NoCounterError(_NO_NVML)
    if os.environ.get("CUDA_VISIBLE_DEVICES", "").startswith("MIG-"):
        raise NoCounterError("no energy counter: NVML counts the energy of a whole GPU, not that of a part of it (MIG)")
    uuid = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    name = f"GPU-{uuid}" if uuid is not None else nvidia.current_gpu()
    try:
        handle = library.nvmlDeviceGetHandleByUUID(name)
        if _is_divided(library, handle):
            raise NoCounterError(
                f"no energy counter: {name} is divided into parts (MIG), and NVML counts the whole of it"
            )
        return int(library.nvmlDeviceGetIndex(handle))
    except (library.NVMLError, TypeError) as error:
        raise NoCounterError(f"no energy counter: NVML does not know the GPU in use, {name} ({error})") from None


def _is_divided(library: Any, handle: Any) -> bool:
    try:
        return library.nvmlDeviceGetMigMode(handle)[0] == library.NVML_DEVICE_MIG_ENABLE
    except library.NVMLError:  # a GPU that cannot be divided
        return False


def _gpu_counter() -> Counter:
    index = nvml_index()
    library = nvidia.management_library()
    try:
        from pyJoules.device.nvidia_device import NvidiaGPUDevice, NvidiaGPUDomain
    except ImportError:
        raise NoCounterError(_NO_PYJOULES) from None

    domain = NvidiaGPUDomain(index)
    device = NvidiaGPUDevice()
    try:
        device.configure([domain])
        device.get_energy()
    except library.NVMLError as error:
        raise NoCounterError(f"no energy counter: NVML says {error} (GPUs before Volta have none)") from None

    def read() -> float:
        try:
            return device.get_energy()[0] * NVML_UNIT_J
        except library.NVMLError as error:
            raise CounterError(f"the energy counter (NVML {domain}) cannot be read any more: {error}") from None

    return Counter(f"NVML {domain}", read)


def _cpu_counter() -> Counter:
    try:
        from pyJoules.device.rapl_device import RaplDevice
        from pyJoules.exception import NoSuchDeviceError
    except ImportError:
        raise NoCounterError(_NO_PYJOULES) from None
    try:
        device = RaplDevice()
        domains = device.available_package_domains() + device.available_dram_domains()
        device.configure(domains)
        device.get_energy()
    except NoSuchDeviceError:
        raise NoCounterError("no energy counter: this system has no RAPL (/sys/class/powercap/intel-rapl)") from None
    except OSError as error:  # since 2020 Linux lets only root read it
        raise NoCounterError(f"no energy counter: RAPL cannot be read ({error})") from None
    if not domains:
        raise NoCounterError("no energy counter: RAPL has no package domain here")
    name = "RAPL " + " + ".join(map(str, domains))

    def read() -> float:
        try:
            return sum(device.get_energy()) * RAPL_UNIT_J
        except OSError as error:
            raise CounterError(f"the energy counter ({name}) cannot be read any more: {error}") from None

    return Counter(name, read, wraps=True)
