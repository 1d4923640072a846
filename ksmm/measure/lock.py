"""One timing job at a time on a device: a lock per GPU, and one for the CPU, on the whole machine.

The lock is a `flock` on a file in a directory that all users share. The operating system frees it when its holder ends,
however it ends. Under Slurm, which gives each job GPUs of its own, GPUs are not locked.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from ksmm.measure import nvidia

logger = logging.getLogger(__name__)

DIRECTORY_VARIABLE = "KSMM_LOCK_DIRECTORY"
_POLL_S = 0.5
_REMIND_S = 60.0


class DeviceAbsentError(RuntimeError):
    """A device was asked for that is not there, or that this process is not allowed to see."""


def lock_directory() -> Path:
    """Where the lock files are: $KSMM_LOCK_DIRECTORY, else ksmm-locks in the machine's temporary directory."""
    return Path(os.environ.get(DIRECTORY_VARIABLE) or Path(tempfile.gettempdir()) / "ksmm-locks")


@contextlib.contextmanager
def device_lock(device_type: str) -> Iterator[str]:
    """Holds the device: waits for the CPU, or for the first GPU of the visible ones that is free.

    On CUDA it sets CUDA_VISIBLE_DEVICES to the GPU that it got, so it must be entered before CUDA is initialised;
    where CUDA is initialised already, it waits for the GPU in use.

    Yields:
        The lock's name: "cpu", or the GPU's, such as "GPU-…".

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
        yield "given by Slurm"
        return
    with hold_any(_candidates()) as name:
        if not torch.cuda.is_initialized():
            os.environ["CUDA_VISIBLE_DEVICES"] = name
        _require_cuda()
        _require_gpu(name)
        yield name


def given_by_slurm() -> bool:
    """Whether this process runs in a Slurm job that was given GPUs."""
    given = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "CUDA_VISIBLE_DEVICES")
    return "SLURM_JOB_ID" in os.environ and any(os.environ.get(name) for name in given)


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
        names: of all GPUs, in nvidia-smi's order, as nvidia.gpu_names() gives them.
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


@contextlib.contextmanager
def hold_any(names: Sequence[str]) -> Iterator[str]:
    """Holds the lock of one of several names, the first that is free; waits as long as none is."""
    directory = _prepared(lock_directory())
    reminded = 0.0
    while True:
        for name in names:
            descriptor = _open(directory / f"{name.replace('/', '_')}.lock")
            if _taken(descriptor):
                try:
                    _sign(descriptor)
                    yield name
                finally:
                    os.close(descriptor)
                return
            os.close(descriptor)
        if not reminded or time.monotonic() - reminded > _REMIND_S:
            reminded = time.monotonic()
            logger.info("waiting for %s", ", ".join(f"{name} (held by {_holder(directory, name)})" for name in names))
        time.sleep(_POLL_S)


def _prepared(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True)
        directory.chmod(0o1777)  # every user may add a lock; mkdir's mode would be cut by the umask
    except FileExistsError:
        pass
    if not stat.S_ISDIR(directory.lstat().st_mode):
        raise NotADirectoryError(
            f"{directory} should hold the locks of devices, but is no directory; remove it, or set {DIRECTORY_VARIABLE}"
        )
    return directory


def _open(path: Path) -> int:
    """Opens a lock file, never through a link that somebody else put there.

    An existing file is opened without O_CREAT: in a sticky directory Linux refuses O_CREAT on another user's file.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            pass
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            continue
        os.fchmod(descriptor, 0o666)
        return descriptor


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def _holder(directory: Path, name: str) -> str:
    try:
        pid = (directory / f"{name.replace('/', '_')}.lock").read_text().strip()
    except OSError:
        pid = ""
    return f"process {pid}" if pid else "another process"
