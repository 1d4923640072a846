"""Where the time of a network goes, kernel by kernel, with PyTorch's profiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ksmm.measure import memory, timer
from ksmm.measure.protocol import Protocol
from ksmm.networks.accuracy import precision
from ksmm.networks.build import build_network
from ksmm.networks.entry import FULLY_CONNECTED, Entry
from ksmm.networks.measure import unsupported
from ksmm.networks.modes import prepare
from ksmm.networks.network import UnavailableError
from ksmm.networks.sizes import GPTS, SIZES, VITS

COLUMNS = (
    "device",
    "network",
    "part",
    "implementation",
    "accuracy_class",
    "batch_size",
    "tokens",
    "status",
    "reason",
    "kernel",
    "calls_per_pass",
    "seconds_per_pass",
    "share",
)
_PASSES = 5


def profiled_entries(size: str, accuracy_classes: Sequence[str], implementation: str) -> list[Entry]:
    """What is profiled: the whole vision transformer and the longest prefill of GPT-2, dense and Kronecker-sparse."""
    names = SIZES[size]
    vit, gpt = VITS[names["vit"]], GPTS[names["gpt2"]]
    kinds = (
        (names["vit"], "whole", "paper", (vit.batch_size, vit.tokens)),
        (names["gpt2"], "prefill", "default", gpt.prefill[-1]),
    )
    return [
        Entry(network, part, "" if chosen == FULLY_CONNECTED else chains, chosen, accuracy_class, "eager", *shape)
        for network, part, chains, shape in kinds
        for accuracy_class in accuracy_classes
        for chosen in (FULLY_CONNECTED, implementation)
    ]


def profile(entry: Entry, protocol: Protocol, device_type: str) -> list[dict[str, Any]]:
    """The kernels of one forward pass (operators, on a CPU), the longest in total first.

    Returns:
        Rows with the columns of COLUMNS but device: seconds and calls of each kernel, averaged over five passes, and
        its share of the time of all kernels. One row with a status and a reason where nothing could be profiled.
    """
    known = {name: value for name, value in entry.to_dict().items() if name in COLUMNS}
    reason = unsupported(entry, device_type)
    if reason is None:
        try:
            with torch.no_grad(), precision(entry.accuracy_class):
                kernels = _kernels(entry, protocol, device_type)
            total = sum(seconds for _, _, seconds in kernels)
            return [
                known
                | {"status": "ok", "reason": "", "kernel": name}
                | {"calls_per_pass": calls, "seconds_per_pass": seconds, "share": seconds / total}
                for name, calls, seconds in kernels
            ]
        except UnavailableError as error:
            reason = str(error)
        except RuntimeError as error:
            if not memory.is_out_of_memory(error):
                raise
            return [known | {"status": "out_of_memory", "reason": str(error).splitlines()[0]}]
    return [known | {"status": "skipped", "reason": reason}]


def _kernels(entry: Entry, protocol: Protocol, device_type: str) -> list[tuple[str, float, float]]:
    """Name, calls and seconds of each kernel in one pass."""
    run = prepare(build_network(entry, device_type, protocol.seed), entry.mode)
    run()
    timer.synchronise(device_type)
    on_device = device_type == "cuda"
    activity = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CPU, activity.CUDA] if on_device else [activity.CPU]) as profiler:
        for _ in range(_PASSES):
            run()
        timer.synchronise(device_type)
    found = []
    for event in profiler.key_averages():
        if on_device and event.device_type != torch.autograd.DeviceType.CUDA:
            continue  # an operator on the host; its kernels are listed themselves
        microseconds = event.self_device_time_total if on_device else event.self_cpu_time_total
        if microseconds > 0:
            found.append((event.key, event.count / _PASSES, microseconds * 1e-6 / _PASSES))
    return sorted(found, key=lambda row: -row[2])
