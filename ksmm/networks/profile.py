"""Where the time of a network goes, kernel by kernel, with PyTorch's profiler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ksmm.measure import memory, timer
from ksmm.measure.errors import PoisonedError, is_poison, one_line
from ksmm.measure.protocol import Protocol
from ksmm.measure.provenance import kernel_hash
from ksmm.measure.samples import median
from ksmm.networks.accuracy import precision
from ksmm.networks.build import build_network
from ksmm.networks.entry import FULLY_CONNECTED, Entry
from ksmm.networks.measure import unsupported
from ksmm.networks.modes import prepare
from ksmm.networks.network import UnavailableError
from ksmm.networks.sizes import GPTS, SIZES, VITS
from ksmm.networks.timeline import kernel_times

COLUMNS = (
    "device",
    "network",
    "part",
    "chains",
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


@dataclass(frozen=True)
class Profile:
    """What the journal keeps of an entry: its rows."""

    rows: list[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """The rows, under their name."""
        return {"rows": self.rows}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Profile:
        """The inverse of to_dict.

        Raises:
            KeyError: it has no rows.
        """
        return cls(content["rows"])


class PoisonedProfileError(PoisonedError):
    """A CUDA error after which this process cannot use the device any more, where a new process can.

    Attributes:
        measurement: the profile of what was running, a row of status failed.
    """

    def __init__(self, row: dict[str, Any]) -> None:
        super().__init__(f"{row['network']}: {row['reason']}")
        self.measurement = Profile([row])


def profiled_entries(size: str, accuracy_classes: Sequence[str], implementation: str) -> list[Entry]:
    """What is profiled: the whole vision transformer and the longest prefill of GPT-2, dense and Kronecker-sparse.

    The transformer has the chains of appendix B.7, and the default ones, which are the faster in 16 bits.
    """
    names = SIZES[size]
    vit, gpt = VITS[names["vit"]], GPTS[names["gpt2"]]
    kinds = (
        (names["vit"], "whole", ("paper", "default"), (vit.batch_size, vit.tokens)),
        (names["gpt2"], "prefill", ("default",), gpt.prefill[-1]),
    )
    return [
        Entry(network, part, chains, chosen, accuracy_class, "eager", *shape)
        for network, part, rules, shape in kinds
        for accuracy_class in accuracy_classes
        for chains, chosen in (("", FULLY_CONNECTED), *((rule, implementation) for rule in rules))
    ]


def profile(entry: Entry, protocol: Protocol, device_type: str) -> list[dict[str, Any]]:
    """The kernels of one forward pass (operators, on a CPU), the longest in total first.

    Args:
        entry: what is profiled.
        protocol: how a whole pass is timed; that of networks.csv gives the same time as there.
        device_type: "cpu" or "cuda".

    Returns:
        Rows with the columns of COLUMNS but device: seconds and calls of each kernel, averaged over five passes, and
        its share of the time of all kernels. Time in which kernels overlap is that of the first of them (see
        kernel_times). pass_s is the median of a whole pass without the profiler, the gaps between kernels included.
        One row with a status and a reason where nothing could be profiled.

    Raises:
        PoisonedProfileError: a CUDA error that this process does not recover from.
    """
    known = _known(entry)
    reason = unsupported(entry, device_type)
    if reason is None:
        try:
            with torch.no_grad(), precision(entry.accuracy_class):
                run = prepare(build_network(entry, device_type, protocol.seed), entry.mode)
                pass_s = _pass_seconds(run, protocol, device_type)
                kernels = _kernels(run, device_type)
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
        except Exception as error:
            status = "out_of_memory" if memory.is_out_of_memory(error) else "failed"
            row = known | {"status": status, "reason": f"{type(error).__name__}: {one_line(error)}"}
            if status == "failed" and is_poison(error):
                raise PoisonedProfileError(row) from error
            return [row]
    return [known | {"status": "skipped", "reason": reason}]


def unprofiled(entry: Entry, status: str, reason: str) -> Profile:
    """What stands for an entry that could not be profiled to its end."""
    return Profile([_known(entry) | {"status": status, "reason": reason}])


def _known(entry: Entry) -> dict[str, Any]:
    """The columns that say what is profiled."""
    return {name: value for name, value in entry.to_dict().items() if name in COLUMNS}


def _pass_seconds(run: Callable[[], object], protocol: Protocol, device_type: str) -> float:
    """The median of one pass, timed as in networks.csv."""
    estimate = timer.estimate_seconds(run, protocol, device_type)
    return median(timer.time_product(run, protocol, device_type, estimate).samples_s)


def _kernels(run: Callable[[], object], device_type: str) -> list[tuple[str, float, float]]:
    """Name, calls and seconds of each kernel in one pass, or of each operator on a CPU; the longest in total first."""
    on_device = device_type == "cuda"
    activity = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CPU, activity.CUDA] if on_device else [activity.CPU]) as profiler:
        for _ in range(_PASSES):
            run()
        timer.synchronise(device_type)
    found = _device_times(profiler.events()) if on_device else _host_times(profiler.key_averages())
    per_pass = [(name, calls / _PASSES, microseconds * 1e-6 / _PASSES) for name, (calls, microseconds) in found.items()]
    return sorted(per_pass, key=lambda row: -row[2])


def _device_times(events: Iterable[Any]) -> dict[str, tuple[int, float]]:
    """Kernel -> calls and microseconds: operators on the host are left out, and annotations, which span kernels."""
    return kernel_times(
        (event.name, event.time_range.start, event.time_range.end)
        for event in events
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.is_user_annotation
    )


def _host_times(averages: Iterable[Any]) -> dict[str, tuple[int, float]]:
    """Operator -> calls and microseconds without those of the operators that it calls."""
    return {event.key: (event.count, event.self_cpu_time_total) for event in averages if event.self_cpu_time_total > 0}
