"""What a measurement is of: two with the same identity measure the same thing in the same way, on the same device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ksmm.measure.tasks import Task
from ksmm.problem import dtype_name

_OF_THE_TASK = ("pattern", "batch_size", "dtype", "layout", "implementation", "part")


def identity_of(task: Task, protocol: Mapping[str, object], kernel_hash: str, device: dict[str, Any]) -> dict[str, Any]:
    """The identity of a measurement that is to be made.

    Args:
        task: what is measured.
        protocol: how, as a record keeps it.
        kernel_hash: of the kernel library.
        device: what provenance.device_facts says of it.
    """
    problem = task.problem
    return {
        "pattern": list(problem.pattern),
        "batch_size": problem.batch_size,
        "dtype": dtype_name(problem.dtype),
        "layout": problem.layout,
        "implementation": task.implementation.name,
        "part": task.part,
        "protocol": dict(protocol),
        "kernel_hash": kernel_hash,
        "torch": str(torch.__version__),
        "device": device["slug"],
        "device_name": device["name"],
        "threads": device["threads"],
    }


def identities_in(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The identities of a record's measurements, in its order."""
    device, provenance = record["device"], record["provenance"]
    shared = {
        "protocol": record["protocol"],
        "kernel_hash": provenance["kernel_hash"],
        "torch": provenance["software"]["versions"]["torch"],
        "device": device["slug"],
        "device_name": device["name"],
        "threads": device.get("threads"),
    }
    return [{name: entry[name] for name in _OF_THE_TASK} | shared for entry in record["measurements"]]
