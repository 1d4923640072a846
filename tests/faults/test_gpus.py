"""The lock and the busy check on GPUs that are there: more jobs than GPUs, and one that computes without a lock."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap
import time

import pytest
import torch

from ksmm.measure import idle, nvidia

pytestmark = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

WORKER = textwrap.dedent(
    """
    import sys, time
    import torch
    from ksmm.measure import nvidia
    from ksmm.measure.lock import device_lock

    with device_lock("cuda") as name:
        assert torch.cuda.device_count() == 1
        assert nvidia.current_gpu() == name
        begin = time.monotonic()
        x = torch.randn(2048, 2048, device="cuda")
        while time.monotonic() - begin < 1:
            x @ x
            torch.cuda.synchronize()
        print(name, begin, time.monotonic())
    """
)

BURNER = textwrap.dedent(
    """
    import torch
    x = torch.randn(8192, 8192, device="cuda")
    print("computing", flush=True)
    while True:
        for _ in range(20):
            x @ x
        torch.cuda.synchronize()
    """
)


def test_jobs_share_the_gpus_and_none_has_one_at_the_same_time_as_another():
    gpus = torch.cuda.device_count()
    jobs = [
        subprocess.Popen([sys.executable, "-c", WORKER], stdout=subprocess.PIPE, text=True) for _ in range(3 * gpus)
    ]
    spans = [job.communicate(timeout=300)[0].split() for job in jobs]
    assert {job.returncode for job in jobs} == {0}
    by_gpu: dict[str, list[tuple[float, float]]] = {}
    for name, begin, end in spans:
        by_gpu.setdefault(name, []).append((float(begin), float(end)))
    assert len(by_gpu) == gpus
    for used in by_gpu.values():
        used.sort()
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(used))


def test_one_that_computes_without_a_lock_is_noticed():
    name = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    if nvidia.utilisation_percent(name) is None:
        pytest.skip("NVML does not tell the utilisation of this GPU")
    burner = subprocess.Popen([sys.executable, "-c", BURNER], stdout=subprocess.PIPE, text=True)
    try:
        assert burner.stdout.readline() == "computing\n"
        time.sleep(2)
        found = idle.wait_until_idle(name, 2.0)
        assert idle.is_busy(found)
        assert found["waited_s"] >= 2.0
    finally:
        burner.kill()
        burner.wait()
    assert not idle.is_busy(idle.wait_until_idle(name, 60.0))
