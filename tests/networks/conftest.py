"""Entries on tiny networks, a protocol that takes milliseconds, and a job of both."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from ksmm.measure.protocol import Protocol
from ksmm.networks.entry import FULLY_CONNECTED, Entry
from ksmm.networks.job import run_job

QUICK = Protocol(min_samples=2, max_samples=2, runs_per_sample=1, max_seconds=0.05, max_seconds_per_run=30.0)

ENTRIES = {
    "linear": Entry("vit_tiny", "linear_n_4n_bias", "paper", "bmm", "strict", "eager", 2, 17),
    "feed_forward": Entry("vit_tiny", "feed_forward", "paper", "bmm", "strict", "eager", 2, 17),
    "attention": Entry("vit_tiny", "attention", "paper", "bmm", "strict", "eager", 2, 17),
    "whole": Entry("vit_tiny", "whole", "paper", "bmm", "strict", "eager", 2, 17),
    "prefill": Entry("gpt2_tiny", "prefill", "default", "bmm", "strict", "eager", 2, 8),
    "decode": Entry("gpt2_tiny", "decode", "default", "bmm", "strict", "eager", 2, 1, 8),
    "llama": Entry("llama_tiny_block", "block", "default", "bmm", "strict", "eager", 2, 8),
}


def changed(entry: Entry, **changes: object) -> Entry:
    """The entry with some fields changed; a dense one has no chains."""
    if changes.get("implementation") == FULLY_CONNECTED:
        changes["chains"] = ""
    return dataclasses.replace(entry, **changes)


THREE = [
    changed(ENTRIES["linear"], implementation=FULLY_CONNECTED),
    ENTRIES["linear"],
    changed(ENTRIES["linear"], accuracy_class="tf32"),
]


def run(folder: Path, chosen=THREE, **options) -> Path:
    """The record of a job that measured them on the CPU."""
    record = folder / "records" / "mine.json"
    run_job(chosen, device_type="cpu", protocol=QUICK, record=record, journal=folder / "journal", **options)
    return record


@pytest.fixture(autouse=True)
def _one_thread():
    """Tiny products on two threads of a busy machine wait for each other for milliseconds."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
