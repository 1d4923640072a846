"""Opening a tuning file to add to it."""

from __future__ import annotations

from pathlib import Path

import torch

from ksmm.measure import provenance
from ksmm.measure.idle import is_busy
from ksmm.measure.protocol import Protocol
from ksmm.tuning.file import TuningError, TuningFile, read_tuning
from ksmm.version import __version__


def opened(file: Path, device_type: str) -> TuningFile:
    """What the file holds; nothing if it is not there.

    Raises:
        TuningError: it is broken, or another device's.
        OSError: it cannot be read.
    """
    slug, name = provenance.device_slug(device_type), provenance.device_name(device_type)
    if not file.exists():
        return TuningFile(slug, name)
    tuning = read_tuning(file)
    if tuning.device_name != name:
        raise TuningError(f"the tuning file {file} is of {tuning.device_name}, and this is {name}; name another one")
    return tuning


def enter_facts(tuning: TuningFile, device_type: str, protocol: Protocol, busy: dict[str, float]) -> int:
    """Enters what is measured with now, unless it is there; returns its number.

    Args:
        tuning: the file's content.
        device_type: "cpu" or "cuda".
        protocol: how it is measured.
        busy: what `wait_until_idle` found; it is entered where another process computes on the GPU all the same.
    """
    device = provenance.device_facts(device_type)
    facts = {
        "ksmm": __version__,
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda if device_type == "cuda" else None,
        "driver": device.get("driver"),
        "threads": device["threads"],
        "kernel_hash": provenance.kernel_hash(),
        "git": provenance.git_state(),
        "protocol": protocol.to_dict(),
    }
    if device_type == "cuda":
        facts["cuda_architectures"] = (provenance.kernel_manifest() or {}).get("cuda_architectures")
    if is_busy(busy):
        facts["device_busy"] = busy
    if facts not in tuning.measured_with:
        tuning.measured_with.append(facts)
    return tuning.measured_with.index(facts)
