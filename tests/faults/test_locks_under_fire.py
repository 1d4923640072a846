"""500 jobs on three pretended GPUs, more at once than there are GPUs, some of them killed: never two on one GPU."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import time

import pytest

from ksmm.measure import lock, lock_files, nvidia

GPUS = ["GPU-00000000-aaaa", "GPU-00000000-bbbb", "MIG-00000000-cccc"]
JOBS, AT_ONCE, KILLED = 500, 10, 60


@pytest.fixture
def pretended_gpus(monkeypatch):
    """A PyTorch for CUDA on a machine with GPUS; and no waiting between two looks at a lock."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
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


def start_job(folder, seconds) -> int:
    child = os.fork()
    if child:
        return child
    try:
        use_gpu(folder, seconds)
    except BaseException as error:  # noqa: BLE001 - whatever it is, this process must end here
        (folder / f"failed-{os.getpid()}").write_text(repr(error))
        os._exit(1)
    os._exit(0)


def test_never_two_on_one_gpu(pretended_gpus, tmp_path, record_property):
    seed = random.randrange(2**32)
    record_property("seed", seed)
    dice = random.Random(seed)
    doomed = set(dice.sample(range(JOBS), KILLED))
    waiting, running, ended = list(range(JOBS)), {}, {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            number = waiting.pop()
            running[start_job(tmp_path, dice.uniform(0, 0.03))] = number
        for process in [process for process, number in running.items() if number in doomed and dice.random() < 0.2]:
            os.kill(process, signal.SIGKILL)
        process, status = os.waitpid(-1, 0)
        ended[running.pop(process)] = os.waitstatus_to_exitcode(status)
    assert [path.read_text() for path in tmp_path.glob("failed-*")] == []
    killed = sum(code == -signal.SIGKILL for code in ended.values())
    assert killed > KILLED / 4
    assert {code for number, code in ended.items() if number not in doomed} == {0}
    used = (tmp_path / "used.txt").read_text().split()
    assert JOBS - KILLED <= len(used) <= JOBS
    assert set(used) == set(GPUS)
    assert min(used.count(name) for name in GPUS) > JOBS / 20


@pytest.mark.parametrize(
    ("variable", "allowed"),
    [("1", GPUS[1:2]), ("GPU-00000000-a", GPUS[:1]), ("MIG-00000000-cccc,0", [GPUS[2], GPUS[0]])],
)
def test_only_the_gpus_that_are_visible_are_used(pretended_gpus, tmp_path, monkeypatch, variable, allowed):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    children = [start_job(tmp_path, 0.05) for _ in range(4)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert set((tmp_path / "used.txt").read_text().split()) == set(allowed)


def test_under_slurm_nothing_is_locked(pretended_gpus, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with lock.device_lock("cuda") as first, lock.device_lock("cuda") as second:
        assert first == second == lock.GIVEN_BY_SLURM
    assert not lock_files.lock_directory().exists()
