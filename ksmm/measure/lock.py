"""One timing job at a time on a device: a lock per GPU, by its UUID, and one for the CPU, on the whole machine.

lock_files says how a lock is held. Under Slurm, which gives each job GPUs of its own, GPUs are not locked.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

import torch

from ksmm.measure import nvidia
from ksmm.measure.lock_files import hold_any

GIVEN_BY_SLURM = "given by Slurm"
_VISIBLE_AT_START = os.environ.get("CUDA_VISIBLE_DEVICES")


class DeviceAbsentError(RuntimeError):
    """A device was asked for that is not there, or that this process is not allowed to see."""


def environment_at_start() -> dict[str, str]:
    """The environment of this process, with all the GPUs visible again of which device_lock chose one."""
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    return environment if _VISIBLE_AT_START is None else environment | {"CUDA_VISIBLE_DEVICES": _VISIBLE_AT_START}


@contextlib.contextmanager
def device_lock(device_type: str) -> Iterator[str]:
    """Holds the device: waits for the CPU, or for the first GPU of the visible ones that is free.

    On CUDA it sets CUDA_VISIBLE_DEVICES to the GPU that it got, so it must be entered before CUDA is initialised;
    where CUDA is initialised already, it waits for the GPU in use.

    Yields:
        The lock's name: "cpu", the GPU's, such as "GPU-…", or GIVEN_BY_SLURM.

    Raises:
        DeviceAbsentError: CUDA was asked for, and there is no GPU to be seen, or PyTorch cannot use it.
        OSError: the lock directory cannot be used.
    """
    if device_type == "cpu":
        with hold_any(["cpu"]) as name:
            yield name
        return
    if given_by_slurm():
        _require_cuda()
        yield GIVEN_BY_SLURM
        return
    with hold_any(_candidates()) as name:
        if not torch.cuda.is_initialized():
            os.environ["CUDA_VISIBLE_DEVICES"] = name
        _require_cuda()
        _require_gpu(name)
        yield name


def given_by_slurm() -> bool:
    """Whether this process runs in a Slurm job that was given one GPU, which Slurm gives to nobody else.

    In a job that was given several, processes of the job must share them out, as on any machine.
    """
    listed = os.environ.get("SLURM_STEP_GPUS") or os.environ.get("SLURM_JOB_GPUS") or ""
    number = os.environ.get("SLURM_GPUS_ON_NODE") or str(len(listed.split(",")) if listed else 0)
    return "SLURM_JOB_ID" in os.environ and number == "1"


def cuda_present() -> bool:
    """Whether there is a GPU that this PyTorch can use, found without initialising CUDA where NVML can be asked."""
    names = nvidia.gpu_names()
    if names:
        return torch.version.cuda is not None and bool(visible_gpus(names, os.environ.get("CUDA_VISIBLE_DEVICES")))
    return torch.cuda.is_available()


def _candidates() -> list[str]:
    if torch.cuda.is_initialized():
        return [nvidia.current_gpu() or "cuda"]
    names = visible_gpus(nvidia.gpu_names(), os.environ.get("CUDA_VISIBLE_DEVICES"))
    if names:
        return names
    _require_cuda()  # nvidia-ml-py is missing or sees nothing: the first GPU that PyTorch sees
    torch.cuda.init()
    return [nvidia.current_gpu() or "cuda"]


def visible_gpus(names: Sequence[str], variable: str | None) -> list[str]:
    """The GPUs that a value of CUDA_VISIBLE_DEVICES leaves visible.

    Args:
        names: of all GPUs, in nvidia-smi's order, as nvidia.gpu_names() gives them; an index means that order, as CUDA
            does with CUDA_DEVICE_ORDER=PCI_BUS_ID, and without it where all GPUs are of one kind.
        variable: the value, None where it is not set: indices, UUIDs (or the beginnings of some), MIG names. As CUDA
            does, it ends at the first entry that names no GPU.
    """
    if variable is None:
        return list(names)
    visible = []
    for entry in variable.split(","):
        matches = _matches(entry.strip(), names)
        if len(matches) != 1:
            break
        visible += matches
    return visible


def _matches(entry: str, names: Sequence[str]) -> list[str]:
    if entry.isdigit():
        return list(names[int(entry) : int(entry) + 1])
    if entry.startswith("MIG-"):
        return [entry]
    return [name for name in names if entry and name.startswith(entry)]


def _require_cuda() -> None:
    if not torch.cuda.is_available():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        built = "" if torch.version.cuda else f" (this PyTorch, {torch.__version__}, is built without CUDA)"
        hidden = f" (CUDA_VISIBLE_DEVICES is {visible!r})" if visible is not None else ""
        raise DeviceAbsentError(
            f"a CUDA device was asked for, but PyTorch sees none{built}{hidden}; "
            "use the device cpu, or install a CUDA build of PyTorch on a machine with an NVIDIA GPU"
        )


def _require_gpu(name: str) -> None:
    """CUDA_VISIBLE_DEVICES is read once; if something had CUDA read it earlier, this process is on another GPU."""
    torch.cuda.init()
    used = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    if used is not None and name.startswith("GPU-") and name != f"GPU-{used}":
        raise DeviceAbsentError(
            f"locked {name}, but PyTorch computes on GPU-{used}: CUDA was used before the lock was taken; "
            "take the lock first, or set CUDA_VISIBLE_DEVICES before Python starts"
        )
