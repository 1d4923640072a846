"""What a measurement is of: two with the same identity measure the same thing in the same way, on the same device.

As far as an identity says: problem, protocol, the kernel's library, PyTorch, device, and what tuning remembers, where
that decides how an implementation multiplies. It says nothing of the Python sources (of implementations, of measuring)
and of other packages, or each commit would have a job that was stopped measure all again. A record has their hash and
versions, but those of the process that wrote it: what an earlier one had journalled may be of others.
"""

from __future__ import annotations

from typing import Any

from ksmm.measure.tasks import Task
from ksmm.problem import dtype_name

_OF_THE_TASK = ("pattern", "batch_size", "dtype", "layout", "implementation", "part")
_TUNED = ("kernel", "kernel_strict", "auto")
"""What multiplies otherwise where something is remembered; "auto" in networks alone."""


def identity_of(task: Task, content: dict[str, Any]) -> dict[str, Any]:
    """The identity of a measurement that is to be made.

    Args:
        task: what is measured.
        content: what the record says, as `recording` yields it.
    """
    problem = task.problem
    return {
        "pattern": list(problem.pattern),
        "batch_size": problem.batch_size,
        "dtype": dtype_name(problem.dtype),
        "layout": problem.layout,
        "implementation": task.implementation.name,
        "part": task.part,
        **_shared(content),
        **tuning_of(task.implementation.name, content),
    }


def identities_in(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The identities of a record's measurements, in its order."""
    shared = _shared(record)
    return [
        {name: entry[name] for name in _OF_THE_TASK} | shared | tuning_of(entry["implementation"], record)
        for entry in record["measurements"]
    ]


def tuning_of(implementation: str, content: dict[str, Any]) -> dict[str, str]:
    """The key tuning_hash of an identity; none where tuning decides nothing, or nothing is remembered of the device.

    Nor is there one for records of earlier versions of ksmm, which did not say.
    """
    remembered = content["provenance"].get("tuning_hash", "")
    return {"tuning_hash": remembered} if remembered and implementation in _TUNED else {}


def _shared(content: dict[str, Any]) -> dict[str, Any]:
    device, provenance = content["device"], content["provenance"]
    return {
        "protocol": content["protocol"],
        "kernel_hash": provenance["kernel_hash"],
        "torch": str(provenance["software"]["versions"]["torch"]),
        "device": device["slug"],
        "device_name": device["name"],
        "threads": device.get("threads"),
    }
