import logging
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from ksmm.measure import lock, lock_files

HOLDER = textwrap.dedent(
    """
    import sys
    from ksmm.measure.lock import device_lock
    with device_lock("cpu"):
        print("held", flush=True)
        sys.stdin.read()  # until it is closed
    """
)


def hold() -> subprocess.Popen:
    """Another process that holds the lock until its standard input is closed."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_two_processes_do_not_hold_it_at_once_and_the_waiting_one_says_for_whom(caplog):
    caplog.set_level("INFO")
    process = hold()

    def release(record: logging.LogRecord) -> bool:
        process.stdin.close()
        return True

    logger = logging.getLogger(lock_files.__name__)
    logger.addFilter(release)
    try:
        with lock.device_lock("cpu") as name:
            assert process.wait(600) == 0
    finally:
        logger.removeFilter(release)
    assert name == "cpu"
    assert f"waiting for cpu (held by process {process.pid})" in caplog.text


def test_the_system_frees_it_when_its_holder_is_killed(caplog):
    caplog.set_level("INFO")
    process = hold()
    process.send_signal(signal.SIGKILL)
    process.wait(600)
    with lock.device_lock("cpu"):
        assert "waiting" not in caplog.text


def test_it_is_free_afterwards_whatever_happened():
    with pytest.raises(ZeroDivisionError), lock.device_lock("cpu"):
        raise ZeroDivisionError
    with lock.device_lock("cpu"):
        pass


def test_the_first_free_one_of_several_is_taken():
    with lock_files.hold_any(["GPU-1", "GPU-2"]) as first, lock_files.hold_any(["GPU-1", "GPU-2"]) as second:
        assert (first, second) == ("GPU-1", "GPU-2")


def test_every_user_may_lock():
    with lock.device_lock("cpu"):
        directory = lock_files.lock_directory()
        assert directory.stat().st_mode & 0o7777 == 0o1777
        assert (directory / "cpu.lock").stat().st_mode & 0o666 == 0o666
        assert (directory / "cpu.lock").read_text() == f"{os.getpid()}\n"


def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path):
    with lock.device_lock("cpu"):
        pass
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (lock_files.lock_directory() / "cpu.lock").unlink()
    (lock_files.lock_directory() / "cpu.lock").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"), lock.device_lock("cpu"):
        pass
    assert victim.read_text() == "mine"


def test_a_file_in_the_place_of_the_directory_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(lock_files.DIRECTORY_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(lock_files.UnsafeLockError, match=r"file should hold the locks.*KSMM_LOCK_DIRECTORY"):
        lock.device_lock("cpu").__enter__()


def test_the_default_directory_is_the_machines(monkeypatch, tmp_path):
    monkeypatch.delenv(lock_files.DIRECTORY_VARIABLE)
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # each user's own, on many machines
    assert lock_files.lock_directory() == Path("/tmp/ksmm-locks")


def put_in_place_of_the_lock(make) -> None:
    with lock.device_lock("cpu"):
        pass
    path = lock_files.lock_directory() / "cpu.lock"
    path.unlink()
    make(path)


def test_a_second_name_of_another_file_is_not_emptied(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    put_in_place_of_the_lock(lambda path: path.hardlink_to(victim))
    with (
        pytest.raises(lock_files.UnsafeLockError, match=r"cpu\.lock .* is no plain lock file"),
        lock.device_lock("cpu"),
    ):
        pass
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.write_text("x" * 100)])
def test_what_is_no_lock_file_is_not_waited_on_or_emptied(make):
    put_in_place_of_the_lock(make)
    with pytest.raises(OSError, match=r"no plain lock file|Is a directory"), lock.device_lock("cpu"):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
@pytest.mark.parametrize("folder", ["/proc", "/proc/locks of ksmm"])
def test_a_directory_that_cannot_hold_locks_is_named_and_so_is_the_variable(folder, monkeypatch):
    monkeypatch.setenv(lock_files.DIRECTORY_VARIABLE, folder)
    said = rf"^{folder} cannot hold the locks of devices: .*; set KSMM_LOCK_DIRECTORY to a folder that can$"
    with pytest.raises(OSError, match=said), lock.device_lock("cpu"):
        pass


def test_an_error_while_the_lock_is_held_is_not_the_directorys():
    with pytest.raises(OSError, match=r"^a full disk$"), lock.device_lock("cpu"):
        raise OSError("a full disk")


def test_a_link_in_the_place_of_the_directory_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv(lock_files.DIRECTORY_VARIABLE, str(tmp_path / "link"))
    with pytest.raises(lock_files.UnsafeLockError, match="is no directory"), lock.device_lock("cpu"):
        pass
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_directory_where_users_may_remove_each_others_locks_is_refused(tmp_path, monkeypatch):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv(lock_files.DIRECTORY_VARIABLE, str(tmp_path / "open"))
    with pytest.raises(lock_files.UnsafeLockError, match=r"mode 777\); chmod 1777 it"), lock.device_lock("cpu"):
        pass


def test_a_lock_that_a_cleaner_removed_meanwhile_is_not_taken_for_one(monkeypatch):
    opened = []
    original = lock_files._open

    def removed_once(directory, name):
        descriptor = original(directory, name)
        if not opened:
            os.unlink(name, dir_fd=directory)
        opened.append(descriptor)
        return descriptor

    monkeypatch.setattr(lock_files, "_open", removed_once)
    with lock.device_lock("cpu"):
        assert len(opened) == 2
        assert (lock_files.lock_directory() / "cpu.lock").read_text() == f"{os.getpid()}\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users, so it must be root")
def test_two_users_share_a_lock():
    with lock.device_lock("cpu"):
        pass
    os.chown(lock_files.lock_directory(), 65534, 65534)
    os.chown(lock_files.lock_directory() / "cpu.lock", 65534, 65534)
    with lock.device_lock("cpu"):
        pass


GPUS = ["GPU-aa11", "GPU-aa22", "MIG-bb33"]


@pytest.mark.parametrize(
    ("variable", "visible"),
    [
        (None, GPUS),
        ("", []),
        ("-1", []),
        ("1", ["GPU-aa22"]),
        ("1,0", ["GPU-aa22", "GPU-aa11"]),
        ("0,7,1", ["GPU-aa11"]),
        ("GPU-aa22", ["GPU-aa22"]),
        ("GPU-aa2, 0", ["GPU-aa22", "GPU-aa11"]),
        ("GPU-aa", []),
        ("MIG-bb33", ["MIG-bb33"]),
        ("MIG-GPU-cc/1/0", ["MIG-GPU-cc/1/0"]),
        ("NoDevFiles", []),
    ],
)
def test_the_gpus_that_are_visible(variable, visible):
    assert lock.visible_gpus(GPUS, variable) == visible


def test_a_slash_in_a_name_is_no_folder():
    with lock_files.hold_any(["MIG-GPU-cc/1/0"]):
        assert (lock_files.lock_directory() / "MIG-GPU-cc_1_0.lock").is_file()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_gpu_asked_for_and_absent():
    with pytest.raises(lock.DeviceAbsentError, match="a CUDA device was asked for, but PyTorch sees none"):
        lock.device_lock("cuda").__enter__()


def test_slurm_gives_gpus_itself(monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    assert not lock.given_by_slurm()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert not lock.given_by_slurm()
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert not lock.given_by_slurm()  # set by hand
    monkeypatch.setenv("SLURM_JOB_GPUS", "3")
    assert lock.given_by_slurm()
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "4")
    assert not lock.given_by_slurm()  # its processes share four
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "1")
    assert lock.given_by_slurm()
    monkeypatch.delenv("SLURM_JOB_ID")
    assert not lock.given_by_slurm()


CHOOSER = textwrap.dedent(
    """
    import os, sys
    os.environ["CUDA_VISIBLE_DEVICES"] = sys.argv[1]
    import torch
    from ksmm.measure import nvidia
    from ksmm.measure.lock import device_lock
    with device_lock("cuda") as name:
        assert torch.cuda.device_count() == 1
        assert nvidia.current_gpu() == name
        print(name)
    """
)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_gpu_that_was_locked_is_the_one_that_is_used():
    last = torch.cuda.device_count() - 1
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    name = visible.split(",")[last] if visible else str(last)
    run = subprocess.run([sys.executable, "-c", CHOOSER, name], capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.strip() == f"GPU-{torch.cuda.get_device_properties(last).uuid}"
