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


OF_A_JOB = ["--patterns", "1,4,2,1", "--device-type", "cpu"]
WRITTEN = ["--record", "x.json", "--journal", "journal"]
JOBS = {
    "time_patterns": [*OF_A_JOB, "--batch-size", "4", *WRITTEN],
    "energy_patterns": [*OF_A_JOB, "--batch-size", "4", *WRITTEN],
    "measure_networks": ["--subject", "vit", "--size", "tiny", "--device-type", "cpu", *WRITTEN],
    "profile_networks": [*OPTIONS["profile_networks"], "--device-type", "cpu"],
    "tune_kernel": [*OPTIONS["tune_kernel"], "--device-type", "cpu"],
}


@pytest.mark.parametrize(
    ("script", "wrong", "said"),
    [
        ("time_patterns", ["--batch-size", "0"], "argument --batch-size: 0 is less than 1"),
        ("time_patterns", ["--patterns", "1,2"], "pattern '1,2' is not four integers separated by commas"),
        ("time_patterns", ["--implementations", "abacus"], "argument --implementations: invalid choice: 'abacus'"),
        ("time_patterns", ["--protocol", "{"], "argument --protocol: '{' is not JSON: "),
        ("time_patterns", ["--protocol", "[1]"], "argument --protocol: '[1]' is not a JSON object"),
        ("energy_patterns", ["--energy-protocol", '{"samples": 0}'], "key samples is 0; it must be"),
        ("measure_networks", ["--implementations", "abacus"], "argument --implementations: invalid choice: 'abacus'"),
        ("profile_networks", ["--implementation", "abacus"], "argument --implementation: invalid choice: 'abacus'"),
        ("tune_kernel", ["--batch-sizes", "0"], "argument --batch-sizes: 0 is less than 1"),
        ("tune_kernel", ["--dtypes", "half"], "argument --dtypes: invalid choice: 'half'"),
        ("tune_kernel", ["--layouts", "last"], "argument --layouts: invalid choice: 'last'"),
        ("tune_kernel", ["--protocol", '{"samples": 1}'], "unknown protocol key 'samples'; choose among min_samples"),
        ("tune_kernel", ["--max-seconds", "nan"], "argument --max-seconds: nan is not 0 or more seconds"),
    ],
)
def test_a_wrong_argument_is_named(tmp_path, script, wrong, said):
    command = [sys.executable, ROOT / "workflow" / "scripts" / f"{script}.py", *JOBS[script], *wrong]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]
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
