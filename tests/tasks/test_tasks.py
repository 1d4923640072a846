"""How the threads of the CPU's kernel share tasks: each is taken once, and each thread begins with its own part."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from ksmm.toolchain import find_cxx

SOURCE = Path(__file__).parent / "share.cpp"
CASES = 300


def test_each_task_is_taken_once_and_own_ones_first(tmp_path: Path) -> None:
    compiler = find_cxx()
    if compiler is None:
        pytest.skip("no C++ compiler was found")
    program, seed = tmp_path / "share", random.randrange(2**31)
    command = [*compiler, "-std=c++17", "-O1", "-pthread", "-Wno-psabi", str(SOURCE), "-o", str(program)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    result = subprocess.run(
        [str(program), str(CASES), str(seed)], capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, f"seed {seed}\n{result.stdout}{result.stderr}"
    assert f"0 of {CASES} wrong" in result.stdout
