"""Jobs on another kind of device than their results are filed under measure nothing, and say so in one line."""

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
