"""500 jobs on three pretended GPUs, more at once than there are GPUs, some of them killed: never two on one GPU."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import time
from pathlib import Path

import pytest

from ksmm.measure import lock, lock_files, nvidia

GPUS = ["GPU-00000000-aaaa", "GPU-00000000-bbbb", "MIG-00000000-cccc"]
JOBS, AT_ONCE, KILLED = 500, 10, 40


@pytest.fixture
def pretended_gpus(monkeypatch):
    """A PyTorch for CUDA on a machine with GPUS; and no waiting between two looks at a lock."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(nvidia, "gpu_names", lambda: GPUS)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: False)
    monkeypatch.setattr(lock, "_require_gpu", lambda name: None)
    monkeypatch.setattr(lock_files, "_POLL_S", 0.002)


def use_gpu(folder, seconds):
    """What a job does; it fails if another one is on the same GPU, and notes when it was there."""
    with lock.device_lock("cuda") as name:
        if os.environ["CUDA_VISIBLE_DEVICES"] != name:
            raise RuntimeError("another GPU is visible than the one that is locked")
        device = os.open(folder / name, os.O_RDWR | os.O_CREAT)
        fcntl.lockf(device, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an independent witness: fails if somebody is there
        time.sleep(seconds)
        with (folder / "used.txt").open("a") as file:
            file.write(f"{name}\n")
        os.close(device)


def start_worker(folder: Path, jobs: int | None, seconds: float = 0.0) -> int:
    """A process that does so many jobs of so many seconds; None: jobs of up to 5 ms until there is a file `stop`."""
    child = os.fork()
    if child:
        return child
    visible, dice = os.environ.get("CUDA_VISIBLE_DEVICES"), random.Random()
    try:
        while not (folder / "stop").exists() if jobs is None else jobs > 0:
            use_gpu(folder, dice.uniform(0, 0.005) if jobs is None else seconds)
            jobs = jobs if jobs is None else jobs - 1
            os.environ.pop("CUDA_VISIBLE_DEVICES")
            os.environ |= {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    except BaseException as error:  # noqa: BLE001 - whatever it is, this process must end here
        (folder / f"failed-{os.getpid()}").write_text(repr(error))
        os._exit(1)
    os._exit(0)


def used(folder: Path) -> list[str]:
    path = folder / "used.txt"
    return path.read_text().split() if path.exists() else []


def test_never_two_on_one_gpu(pretended_gpus, tmp_path):
    workers, killed = [start_worker(tmp_path, None) for _ in range(AT_ONCE)], 0
    deadline = time.monotonic() + 600
    try:
        while (len(used(tmp_path)) < JOBS or killed < KILLED) and time.monotonic() < deadline:
            time.sleep(random.uniform(0, 0.03))
            if killed < KILLED:
                victim = workers.pop(random.randrange(AT_ONCE))
                os.kill(victim, signal.SIGKILL)
                assert os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1]) == -signal.SIGKILL
                workers.append(start_worker(tmp_path, None))
                killed += 1
    finally:
        (tmp_path / "stop").touch()
        codes = [os.waitpid(worker, 0)[1] for worker in workers]
    assert codes == [0] * AT_ONCE
    assert [path.read_text() for path in tmp_path.glob("failed-*")] == []
    assert len(used(tmp_path)) >= JOBS
    assert killed == KILLED
    assert min(used(tmp_path).count(name) for name in GPUS) > JOBS / 20


@pytest.mark.parametrize(
    ("variable", "allowed"),
    [("1", GPUS[1:2]), ("GPU-00000000-a", GPUS[:1]), ("MIG-00000000-cccc,0", [GPUS[2], GPUS[0]])],
)
def test_only_the_gpus_that_are_visible_are_used(pretended_gpus, tmp_path, monkeypatch, variable, allowed):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    children = [start_worker(tmp_path, 1, 0.05) for _ in range(4)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert set(used(tmp_path)) == set(allowed)


def test_jobs_share_the_gpus_of_one_slurm_job(pretended_gpus, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_GPUS", "0,1,2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    children = [start_worker(tmp_path, 1, 0.05) for _ in range(6)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
    assert len(used(tmp_path)) == 6


def test_a_slurm_job_of_one_gpu_locks_nothing(pretended_gpus, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_GPUS", "0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with lock.device_lock("cuda") as first, lock.device_lock("cuda") as second:
        assert first == second == lock.GIVEN_BY_SLURM
    assert not lock_files.lock_directory().exists()
