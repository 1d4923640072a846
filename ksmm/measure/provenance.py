"""Where and with what a number was measured: all that is needed to trust it, nothing that names a person or a host."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import os
import platform
import re
import socket
import subprocess
from pathlib import Path

import torch

from ksmm import build
from ksmm.measure import nvidia
from ksmm.measure.lock import DeviceAbsentError, visible_gpus
from ksmm.version import __version__

COMMIT_VARIABLE = "KSMM_COMMIT"
_ROOT = Path(__file__).resolve().parents[2]
_PACKAGE = Path(__file__).resolve().parents[1]
_CUPY = ("cupy", "cupy-cuda12x", "cupy-cuda13x")
_LIBRARIES = ("einops", "lazylinop", "numpy", "nvidia-ml-py", "pyJoules", "triton", *_CUPY)


def device_name(device_type: str) -> str:
    """What the driver calls the GPU ("NVIDIA H200"), or the operating system the processor.

    Asks NVML where it can, so that CUDA need not be initialised.

    Raises:
        DeviceAbsentError: "cuda", and there is none.
        ValueError: neither "cpu" nor "cuda".
    """
    if device_type == "cpu":
        return _processor_name()
    if device_type != "cuda":
        raise ValueError(f"unknown device {device_type!r}; choose cpu or cuda")
    if torch.cuda.is_initialized():
        return torch.cuda.get_device_name()
    visible = visible_gpus(nvidia.gpu_names(), os.environ.get("CUDA_VISIBLE_DEVICES"))
    name = nvidia.product_name(visible[0]) if visible and torch.version.cuda else None
    if name:
        return name
    if not torch.cuda.is_available():
        raise DeviceAbsentError("a CUDA device was asked for, but PyTorch sees none; use the device cpu")
    return torch.cuda.get_device_name()


def device_slug(device_type: str) -> str:
    """The device in names of folders: "nvidia-h200", "cpu-x86_64".

    Raises:
        DeviceAbsentError, ValueError: see device_name.
    """
    if device_type == "cpu":
        return f"cpu-{platform.machine().lower()}"
    return re.sub(r"[^a-z0-9]+", "-", device_name(device_type).lower()).strip("-")


def check_device(device_type: str, slug: str | None) -> None:
    """Checks that the device is the one that its results will be filed under; None stands for any.

    Raises:
        DeviceAbsentError: it is another, or there is none.
        ValueError: see device_name.
    """
    found = device_slug(device_type)
    if slug is not None and found != slug:
        raise DeviceAbsentError(
            f"this run measures on {slug}, but the device of this job is {found}; ask the cluster for the right kind, "
            f"or run on this one with the config key device=cuda:{found}"
        )


def kernel_hash() -> str:
    """The hash of the kernel's sources and flags; empty if it is not built from the present ones."""
    manifest = kernel_manifest()
    return str(manifest["source_hash"]) if manifest else ""


def kernel_manifest() -> dict[str, object] | None:
    """What the built kernel was built from and with; None if there is none."""
    manifest = build.find()
    if manifest is None:
        return None
    kept = ("key", "source_hash", "compiler", "cuda_architectures", "torch")
    facts = {name: value for name, value in dataclasses.asdict(manifest).items() if name in kept}
    return {**facts, "flags": {source: _without_folders(flags) for source, flags in manifest.flags.items()}}


def _without_folders(flags: str) -> str:
    """Compiler flags without the folders of the machine that they were used on."""
    flags = re.sub(r"-ccbin \S+", "", flags)
    return " ".join(flag for flag in flags.split() if not re.match(r"-(isystem|I|L|Wl,-rpath)", flag))


def device_facts(device_type: str) -> dict[str, object]:
    """Slug, name and kind of the device; driver, memory and multiprocessors of a GPU, threads of a CPU."""
    facts: dict[str, object] = {
        "slug": device_slug(device_type),
        "name": device_name(device_type),
        "type": device_type,
        "cpu": _processor_name(),
        "threads": torch.get_num_threads(),
    }
    if device_type == "cuda":
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        facts |= {
            "id_hash": gpu_hash(),
            "driver": nvidia.driver_version(),
            "compute_capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
        }
    return facts


def gpu_hash() -> str:
    """A hash of the UUID of the GPU that this process computes on, so that GPUs can be told apart."""
    return _hashed(nvidia.current_gpu() or "")


def software_facts() -> dict[str, object]:
    """Versions of what takes part in a measurement, the commit, and the kernel's manifest."""
    own = {"ksmm": __version__, "python": platform.python_version(), "torch": torch.__version__}
    return {
        "versions": own | versions(*_LIBRARIES),
        "cuda": torch.version.cuda,
        "operating_system": f"{platform.system()} {platform.release()}",
        "git": git_state(),
        "source_hash": source_hash(),
        "kernel": kernel_manifest(),
    }


def versions(*names: str) -> dict[str, str]:
    """The versions of those of these packages that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def host_facts() -> dict[str, object]:
    """A hash of the host's name, so that hosts can be told apart, and its load averages."""
    return {"id_hash": _hashed(socket.gethostname()), "load_average": [round(load, 2) for load in os.getloadavg()]}


def git_state() -> dict[str, object] | None:
    """Commit of the sources and whether they differ from it; None where they are in no git repository of their own.

    An untracked file of the package counts, since an implementation is found by being there. A copy of the sources
    without its repository can be told its commit in $KSMM_COMMIT; whether it differs from that is not known then.
    """
    told = os.environ.get(COMMIT_VARIABLE)
    if told:
        return {"commit": told, "dirty": None}
    try:
        if Path(_git(_ROOT, "rev-parse", "--show-toplevel")).resolve() != _ROOT:
            return None  # a copy, or an environment, inside somebody else's repository
        commit = _git(_ROOT, "rev-parse", "HEAD")
        changes = _git(_ROOT, "status", "--porcelain", "--untracked-files=no")
        added = _git(_ROOT, "ls-files", "--others", "--exclude-standard", "--", "ksmm")
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "dirty": bool(changes or added)}


def source_hash(package: Path = _PACKAGE) -> str:
    """16 hexadecimal digits that change with any Python file of the package, committed or not."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _git(folder: Path, *arguments: str) -> str:
    # without locks: git would bring the index up to date, and a job that is killed meanwhile would leave it locked
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout.strip()


def _processor_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
