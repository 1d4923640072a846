"""Where the time of a network goes, kernel by kernel, with PyTorch's profiler."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from ksmm.measure import memory, timer
from ksmm.measure.bench import one_line
from ksmm.measure.protocol import Protocol
from ksmm.measure.provenance import kernel_hash
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
    "pass_s",
    "torch",
    "kernel_hash",
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
        its share of the time of all kernels; pass_s is of a whole pass without the profiler. One row with a status and
        a reason where nothing could be profiled.
    """
    known = {name: value for name, value in entry.to_dict().items() if name in COLUMNS}
    reason = unsupported(entry, device_type)
    if reason is None:
        try:
            with torch.no_grad(), precision(entry.accuracy_class):
                pass_s, kernels = _kernels(entry, protocol, device_type)
            total = sum(seconds for _, _, seconds in kernels)
            if not kernels:
                return [known | {"status": "failed", "reason": "the profiler saw no kernel"}]
            return [
                known
                | {"pass_s": pass_s, "torch": str(torch.__version__), "kernel_hash": kernel_hash()}
                | {"status": "ok", "reason": "", "kernel": name}
                | {"calls_per_pass": calls, "seconds_per_pass": seconds, "share": seconds / total}
                for name, calls, seconds in kernels
            ]
        except UnavailableError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - a model, a profiler may raise anything; the others must go on
            status = "out_of_memory" if memory.is_out_of_memory(error) else "failed"
            return [known | {"status": status, "reason": f"{type(error).__name__}: {one_line(error)}"}]
    return [known | {"status": "skipped", "reason": reason}]


def _kernels(entry: Entry, protocol: Protocol, device_type: str) -> tuple[float, list[tuple[str, float, float]]]:
    """Seconds of one pass without the profiler, the gaps between kernels among them; name, calls, seconds of each."""
    run = prepare(build_network(entry, device_type, protocol.seed), entry.mode)
    run()
    timer.synchronise(device_type)
    start = time.perf_counter()
    for _ in range(_PASSES):
        run()
    timer.synchronise(device_type)
    pass_s = (time.perf_counter() - start) / _PASSES
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
    return pass_s, sorted(found, key=lambda row: -row[2])
