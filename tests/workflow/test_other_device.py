"""Jobs that cannot measure, on another kind of device than their results are filed under, say so in one line."""

import re
import subprocess
import sys

import pytest

from tests.workflow.conftest import ROOT

OPTIONS = {
    "profile_networks": ["--size", "tiny", "--output", "x.csv"],
    "tune_kernel": ["--patterns", "1,4,2,1", "--batch-sizes", "4", "--journal", "j.json", "--output", "x.json"],
}


@pytest.mark.parametrize("script", list(OPTIONS))
def test_another_device_is_refused(tmp_path, script):
    command = [sys.executable, ROOT / "workflow" / "scripts" / f"{script}.py", *OPTIONS[script]]
    command += ["--device-type", "cpu", "--device", "nvidia-z1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "this run measures on nvidia-z1, but the device of this job is cpu-" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_tuned_is_said_in_one_line(tmp_path):
    """A journal that was cut off; without a kernel, that there is none."""
    (tmp_path / "j.json").write_text("{")
    command = [sys.executable, ROOT / "workflow" / "scripts" / "tune_kernel.py", *OPTIONS["tune_kernel"]]
    done = subprocess.run(
        [*command, "--device-type", "cpu"], capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path
    )
    assert done.returncode == 1
    said = r"^tune_kernel stopped: (the tuning file j\.json is not whole JSON|there is nothing to tune)"
    assert re.search(said, done.stderr, re.MULTILINE), done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "j.json").read_text() == "{" and not (tmp_path / "x.json").exists()
