"""A table of networks with invented times, as `ksmm.networks.table` would write it."""

from __future__ import annotations

import pandas as pd

from ksmm.networks.entry import CLASSES, FULLY_CONNECTED
from ksmm.networks.subjects import SUBJECTS, entries
from ksmm.networks.table import NETWORKS
from ksmm.table_file import frame_of

SECONDS = {"strict": 20e-3, "tf32": 8e-3, "float16": 4e-3}
OVER_DENSE = {FULLY_CONNECTED: 1.0, "kernel": 0.5, "bmm": 0.9}


def synthetic_networks(size: str = "paper", failing: tuple[str, ...] = ()) -> pd.DataFrame:
    """One row per entry; feed_forward_linears take half of the whole, and bmm has no time in GPT-2's prefill.

    Args:
        size: of the networks.
        failing: implementations that have no time at all.
    """
    modes = ("eager", "cuda_graph", "compile", "compile_cuda_graph")
    chosen = [
        entry for subject in SUBJECTS for entry in entries(subject, size, list(SECONDS), ["kernel", "bmm"], modes)
    ]
    return frame_of([_row(entry, failing) for entry in dict.fromkeys(chosen)], NETWORKS)


def _row(entry, failing: tuple[str, ...]) -> dict:
    seconds = SECONDS[entry.accuracy_class] * OVER_DENSE[entry.implementation]
    seconds *= 0.5 if entry.part == "feed_forward_linears" else 1
    seconds *= 1.2 if entry.chains == "default" and entry.part == "whole" else 1
    untimed = entry.implementation in failing or (entry.implementation == "bmm" and entry.part == "prefill")
    return {
        **entry.to_dict(),
        "device": "nvidia-h200",
        "dtype": CLASSES[entry.accuracy_class],
        "status": "out_of_memory" if untimed else "ok",
        "reason": "CUDA out of memory" if untimed else "",
        "median_s": None if untimed else seconds,
        "iqr_s": None if untimed else 0.01 * seconds,
        "samples": 0 if untimed else 10,
        "runs_per_sample": 0 if untimed else 1,
        "protocol_met": "" if untimed else "yes",
        "relative_error": None if untimed else 1e-6,
        "tolerance": 4e-6,
        "parameters": 1000,
        "operations_per_row": 2000,
        "started_at": "2026-01-02T03:04:05+00:00",
        "device_name": "NVIDIA H200",
        "kernel_hash": "0" * 16,
        "torch": "2.11.0",
        "transformers": "5.23.0",
    }
