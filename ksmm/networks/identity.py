"""What a measurement of a network is of; see ksmm.measure.identity, which is of products."""

from __future__ import annotations

from typing import Any

from ksmm.measure.identity import compiled_for, of_implementation
from ksmm.networks.entry import Entry
from ksmm.networks.measurement import NetworkMeasurement


def identity_of(entry: Entry, content: dict[str, Any]) -> dict[str, Any]:
    """All that decides whether a measurement of an entry is the one that is wanted; `content` is that of its record.

    The GPU itself is part of it, not its model alone: what a record holds is compared, and two GPUs of a model differ.
    """
    versions = content["provenance"]["software"]["versions"]
    return {
        **entry.to_dict(),
        "study": "networks",
        "protocol": content["protocol"],
        "kernel_hash": content["provenance"]["kernel_hash"],
        "torch": versions["torch"],
        "transformers": versions.get("transformers"),
        "timm": versions.get("timm"),
        "device": content["device"]["slug"],
        "device_name": content["device"]["name"],
        "gpu": content["device"].get("id_hash"),  # a CPU has none
        "threads": content["device"].get("threads"),
        **compiled_for(content),
        **of_implementation(entry.implementation, content),
    }


def identities_in(record: dict[str, Any]) -> list[dict[str, Any]]:
    """What the journal knows a record's measurements by, in its order."""
    return [identity_of(NetworkMeasurement.from_dict(values).entry, record) for values in record["measurements"]]
