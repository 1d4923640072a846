"""Profiling networks goes on after one that poisons the process, or ends it, and profiles none twice."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.conftest import ROOT

SCRIPTS = ROOT / "workflow" / "scripts"
DRIVER = """
import os, sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
import torch
import profile_networks
from ksmm.networks import profile

torch.set_num_threads(1)
torch.cuda.is_initialized = lambda: False  # so that nobody can be asked
build, fault, poisoned = profile.build_network, sys.argv[3], []

def faulty(entry, device_type, seed):
    print(entry, flush=True)
    if entry.network == "vit_tiny" and entry.chains == "paper":
        if fault == "crash":
            os._exit(1)
        poisoned.append(1)
    if poisoned:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    return build(entry, device_type, seed)

profile.build_network = faulty
del sys.argv[1:4]
profile_networks.main()
"""


@pytest.mark.parametrize("fault", ["poison", "crash"])
def test_the_others_are_profiled_and_none_twice(tmp_path: Path, fault: str) -> None:
    command = [sys.executable, "-c", DRIVER, SCRIPTS, ROOT, fault, "--size", "tiny", "--device-type", "cpu"]
    command += ["--implementation", "bmm", "--protocol", '{"max_seconds": 0.05, "min_samples": 1}']
    command += ["--output", tmp_path / "networks_profile.csv"]
    begun = ""
    for code in [0] if fault == "poison" else [1, 1, 0]:  # Snakemake's tries
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == code, done.stderr
        begun += done.stdout
    with (tmp_path / "networks_profile.csv").open() as file:
        rows = list(csv.DictReader(file))
    reasons = {row["reason"] for row in rows if row["status"] == "failed"}
    assert [(row["network"], row["chains"]) for row in rows if row["status"] != "ok"] == [("vit_tiny", "paper")]
    assert len({(row["network"], row["chains"]) for row in rows}) == 5
    said = {"poison": "RuntimeError: CUDA error: an illegal", "crash": "it ended the process 2 times"}[fault]
    assert len(reasons) == 1 and said in reasons.pop()
    assert len(begun.splitlines()) == {"poison": 5, "crash": 6}[fault]
    assert list((tmp_path / "networks_profile.journal").iterdir()) == []
