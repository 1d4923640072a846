"""A full disk and a folder that cannot be written to: said in one line, nothing lost, and no measurement blamed."""

import importlib
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ksmm.measure.records import read_record
from tests.faults.conftest import statuses

SCRIPT = Path(__file__).resolve().parents[2] / "workflow" / "scripts" / "time_patterns.py"

# No file may become larger than 700 bytes: the begun measurement can be noted, its result not.
LIMITED = """
    if sys.argv[2] == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
    run(["bmm", "einsum"])
"""


def test_a_disk_that_is_full_three_times_is_no_fault_of_the_measurement(run_job, tmp_path):
    for _ in range(3):
        done = run_job(LIMITED, "full")
        assert done.returncode != 0
        assert "File too large" in done.stderr
    assert list((tmp_path / "journal").iterdir()) == []
    assert run_job(LIMITED, "not").returncode == 0
    assert set(statuses(tmp_path).values()) == {"ok"}


def time_patterns(folder: Path, *more: str, script: Path = SCRIPT, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, script, "--patterns", "1,4,2,1", "--device-type", "cpu", "--batch-size", "4"]
    command += ["--implementations", "bmm", "einsum", "dense", "--layouts", "batch_first", "--protocol"]
    command += ['{"min_samples": 1, "max_samples": 1}', "--record", folder / "records" / "x.json"]
    command += ["--journal", folder / "journal", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, **options)


# time_patterns.py on a disk that is full from the first byte on.
FULL = """
import errno, os, runpy, sys
sys.path.insert(0, {folder!r})

def full(descriptor):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

os.fsync = full
runpy.run_path({script!r}, run_name="__main__")
"""


def test_no_space_left_is_said_in_one_line_and_blamed_on_no_measurement(tmp_path):
    """As on a disk that is full, where none can be mounted."""
    script = tmp_path / "full.py"
    script.write_text(FULL.format(folder=str(SCRIPT.parent), script=str(SCRIPT)))
    done = time_patterns(tmp_path, script=script)
    assert done.returncode == 1
    assert "x stopped: [Errno 28] No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    done = time_patterns(tmp_path)
    assert done.returncode == 0, done.stderr
    assert {entry["status"] for entry in read_record(tmp_path / "records" / "x.json")["measurements"]} == {"ok"}


STUDIES = {
    "time_patterns": ["--patterns", "1,4,2,1", "--batch-size", "4"],
    "energy_patterns": ["--patterns", "1,4,2,1", "--batch-size", "4"],
    "measure_networks": ["--subject", "vit_submodules", "--size", "tiny"],
    "measure_ceilings": ["--dtypes", "float32"],
    "measure_energy_ceilings": ["--dtypes", "float32"],
}


@pytest.mark.parametrize("script", STUDIES)
def test_another_device_than_the_runs_is_said_in_one_line(script, tmp_path, monkeypatch, caplog):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    arguments = [script, *STUDIES[script], "--device", "nvidia-h200", "--device-type", "cpu"]
    arguments += ["--record", str(tmp_path / "records" / "x.json")]
    arguments += [] if "ceilings" in script else ["--journal", str(tmp_path / "journal")]
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.setattr(logging, "raiseExceptions", True)  # the scripts change it for their process
    with pytest.raises(SystemExit) as stop:
        importlib.import_module(script).main()
    assert stop.value.code == 1
    assert "x stopped: this run measures on nvidia-h200, but the device of this job is cpu-" in caplog.text
    assert not (tmp_path / "records").exists()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 kB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=64k", "tmpfs"]
    mounted = subprocess.run(["mount", *options, folder], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_disk_that_is_full_and_then_is_not(small_disk):
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space left"), ballast.open("wb") as file:
        file.write(bytes(2**20))
        file.flush()
    done = time_patterns(small_disk)
    assert done.returncode == 1
    assert "x stopped: [Errno 28] No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    ballast.unlink()
    done = time_patterns(small_disk)
    assert done.returncode == 0, done.stderr
    assert {entry["status"] for entry in read_record(small_disk / "records" / "x.json")["measurements"]} == {"ok"}


@pytest.fixture
def read_only(tmp_path):
    """A folder that nobody can write to, not even root."""
    folder = tmp_path / "read only"
    folder.mkdir()
    if os.geteuid() != 0:
        folder.chmod(0o555)
        yield folder, {}
        folder.chmod(0o755)
        return
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", folder], capture_output=True, check=False)
    if mounted.returncode:
        yield folder, {"user": 65534, "group": 65534, "extra_groups": []}  # root can write anywhere
        return
    yield folder, {}
    subprocess.run(["umount", folder], check=True)


def test_a_folder_that_is_read_only_is_named_before_anything_is_measured(read_only):
    folder, user = read_only
    done = time_patterns(folder, **user)
    assert done.returncode == 1
    assert f"results cannot be written to {folder}/records: " in done.stderr
    assert "make it writable or choose another folder" in done.stderr
    assert "Traceback" not in done.stderr
