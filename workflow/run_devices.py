"""Where a run takes place: its device, the folders that it reads and writes, the library and the Python that it uses.

PyTorch is imported only where a run measures.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from check_config import ConfigError

MEASURING = ("tune", "tune_kernel", "compare_tuned", "measure_ceilings", "measure_energy_ceilings", "profile_networks")
"""Targets that have nothing to do where published records are drawn."""


def resolve_device(name: str, measurements: Path) -> tuple[str, str]:
    """The slug of a device and what to do there: "cpu" or "cuda" to measure, "published" to draw its records.

    "cuda:nvidia-h200" is for jobs that measure elsewhere, on a cluster's nodes: nothing is asked of this machine.

    Raises:
        ConfigError: a GPU is asked for where PyTorch sees none, or the name is not that of a published device.
    """
    published = published_devices(measurements)
    if name.startswith("cuda:"):
        return name.removeprefix("cuda:"), "cuda"
    if name not in ("auto", "cpu", "cuda"):
        if name not in published:
            known = ", ".join(published) or "there are none"
            raise ConfigError(
                f"config key device is {name!r}; it must be auto, cpu or cuda to measure on this machine, "
                f"cuda:{name} to measure on such GPUs of a cluster, "
                f"or a device whose records are published under {measurements}: {known}"
            )
        return name, "published"
    import torch

    from ksmm.measure.provenance import device_slug

    has_gpu = name != "cpu" and torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise ConfigError(
            f"config key device is 'cuda', but PyTorch {torch.__version__} sees no GPU here. Check `nvidia-smi` and "
            "that PyTorch was built for CUDA (torch.version.cuda), or measure on the CPU with device=cpu"
            + "".join(f", or draw published records with device={device}" for device in published)
        )
    device_type = "cuda" if has_gpu else "cpu"
    return device_slug(device_type), device_type


def published_devices(measurements: Path) -> list[str]:
    """Names of the folders in `measurements` that hold records of times or energies."""
    return sorted({path.parents[2].name for path in measurements.glob("*/*/records/*.json")})


def imported_records(folder: Path, device: str) -> list[str]:
    """Paths of the energy records of other devices that `python -m ksmm import-upstream` wrote, if it was run."""
    paths = sorted(folder.glob("*/energy/records/*.json"))
    return [str(path) for path in paths if path.parents[2].name != device]


def check_writable(folder: Path) -> None:
    """Checks that the folder can be written or created, without creating it.

    Raises:
        ConfigError: the nearest folder above it that exists cannot be written, or is a file.
    """
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        what = "cannot be written to" if existing.is_dir() else "is a file"
        raise ConfigError(
            f"results cannot be written to {folder}: {existing} {what}; "
            "choose another folder with the config key results (--config results=FOLDER)"
        )


def check_no_own_run(results: Path, device: str) -> None:
    """Checks that nothing was measured in a folder into which published records are about to be drawn.

    Raises:
        ConfigError: there are records, of whose tables and figures those of the published ones would take the place.
    """
    own = next(results.glob("*/records/*.json"), None)
    if own is not None:
        raise ConfigError(
            f"{own.parent} has records of a run of your own, and config key device is {device!r}: the published ones "
            "would be drawn over its tables and figures; draw them into another folder: "
            f"--config device={device} results=FOLDER (make figures DEVICE={device} RESULTS=FOLDER)"
        )


def check_targets(arguments: Iterable[str], device: str) -> None:
    """Checks that none of Snakemake's arguments is a target that measures, where published records are drawn.

    Raises:
        ConfigError: one does.
    """
    asked = [argument for argument in arguments if argument in MEASURING]
    if asked:
        raise ConfigError(
            f"config key device is {device!r}, a published device, of which nothing is measured: there is no target "
            f"{', '.join(asked)}; leave it out, or measure with device=auto, cpu, cuda or cuda:{device}"
        )


def kernel_changed(record: Path, kernel_sources: str) -> bool:
    """Whether the record of a build is of other sources than the present ones, and so will be written anew.

    Raises:
        ConfigError: the record cannot be read; or it tells of a library of these sources that is gone, or was built
            with another PyTorch: the pipeline would not build it again, as its record is there, and skip `kernel`.
    """
    from ksmm.build import reason_missing

    if not record.exists():
        return False
    try:
        content = json.loads(record.read_text(encoding="utf-8"))
    except ValueError:
        raise ConfigError(f"{record} is not whole JSON; remove it, nothing measured is lost by that") from None
    if content.get("source_hash") != kernel_sources:
        return True
    reason = None if content.get("library") is None else reason_missing()
    if reason is not None:
        raise ConfigError(
            f"{record} says that the kernel library is built, but {reason}; "
            f"that keeps what was measured. To measure everything again instead, remove {record.parent}"
        )
    return False


def use_own_python(repository: Path | str) -> None:
    """Makes `python` in the rules the one that runs Snakemake, whether or not its environment is activated.

    What it imports is the ksmm in `repository`, that of the Snakefile: the environment may have another one installed,
    such as that of a second worktree.
    """
    for name, first in {"PATH": Path(sys.executable).parent, "PYTHONPATH": Path(repository).resolve()}.items():
        rest = os.environ.get(name)
        os.environ[name] = f"{first}{os.pathsep}{rest}" if rest else str(first)
