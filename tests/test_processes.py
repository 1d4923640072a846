"""Where one of the processes that share the tests dies, the others run what it left, and the run ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
from tests.processes import Together

def pytest_xdist_make_scheduler(config, log):
    config.option.loadscopereorder = False
    return Together(config, log)
"""
FILES = 5


def files(folder: Path, crashing: int, tests: int) -> None:
    """Of so many tests each, one of which ends its process, first, last or in between."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text("[pytest]\n")
    for number in range(FILES):
        lines = ["import os", "import time"]
        for test in range(tests):
            does = "os.abort()" if (number, test) == (crashing, tests // 2) else "time.sleep(0.05)"
            lines.append(f"def test_{test}():\n    {does}")
        (folder / f"test_file_{number}.py").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(("crashing", "tests"), [(0, 1), (2, 3), (FILES - 1, 1), (FILES - 1, 3)])
def test_a_run_ends_after_a_process_died_with_all_other_tests_run(tmp_path, request, crashing, tests):
    files(tmp_path, crashing, tests)
    own = {"PYTHONPATH": str(request.config.rootpath), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-n", "2", str(tmp_path)]
    result = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **own}, capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"1 failed, {FILES * tests - 1} passed" in result.stdout
    assert f"test_file_{crashing}.py::test_{tests // 2}" in result.stdout
