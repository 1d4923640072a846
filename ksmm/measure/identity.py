"""What a measurement is of: two with the same identity measure the same thing in the same way, on the same device.

As far as an identity says: problem, protocol, the implementation's own Python sources, the kernel's sources and the
CUDA architectures that they are compiled for, PyTorch, device, and what tuning remembers, where that decides how an
implementation multiplies. It says nothing of the other Python sources (of measuring) and of other packages, or each
commit would have a job that was stopped measure all again. A record has their hash and versions, but those of the
process that wrote it: what an earlier one had journalled may be of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ksmm.names import dtype_name

if TYPE_CHECKING:
    from ksmm.measure.tasks import Task

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
        **of_implementation(task.implementation.name, content),
    }


def identities_in(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The identities of a record's measurements, in its order."""
    shared = _shared(record)
    return [
        {name: entry[name] for name in _OF_THE_TASK} | shared | of_implementation(entry["implementation"], record)
        for entry in record["measurements"]
    ]


def of_implementation(name: str, content: dict[str, Any]) -> dict[str, str]:
    """The keys of an identity that say which sources an implementation has, and what tuning has it do.

    There is no tuning_hash where tuning decides nothing, or nothing is remembered of the device. Records of earlier
    versions of ksmm have neither, and so nothing that a job of this version would take for its own.
    """
    provenance = content["provenance"]
    tuned, sources = provenance.get("tuning_hash", ""), provenance.get("implementation_hashes", {}).get(name, "")
    return ({"tuning_hash": tuned} if tuned and name in _TUNED else {}) | (
        {"implementation_hash": sources} if sources else {}
    )


def _shared(content: dict[str, Any]) -> dict[str, Any]:
    device, provenance = content["device"], content["provenance"]
    return {
        "protocol": content["protocol"],
        "kernel_hash": provenance["kernel_hash"],
        "torch": str(provenance["software"]["versions"]["torch"]),
        "device": device["slug"],
        "device_name": device["name"],
        "threads": device.get("threads"),
        **compiled_for(content),
    }


def compiled_for(content: dict[str, Any]) -> dict[str, Any]:
    """The key of an identity that says what the kernel is compiled for; none without a CUDA part."""
    kernel = content["provenance"]["software"].get("kernel") or {}
    architectures = kernel.get("cuda_architectures")
    return {"cuda_architectures": architectures} if architectures else {}
