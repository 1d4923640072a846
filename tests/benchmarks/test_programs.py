"""The programs for CPUs compile, and say how they are called; those for GPUs: tests/cuda/test_compiles.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ksmm.toolchain import find_cxx

SOURCES = sorted((Path(__file__).parents[2] / "benchmarks").glob("*.cpp"))


def test_there_are_some() -> None:
    assert SOURCES


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_it_compiles_and_says_how_it_is_called(tmp_path: Path, source: Path) -> None:
    compiler = find_cxx()
    if compiler is None:
        pytest.skip("no C++ compiler was found")
    if source.stem == "round_trip" and sys.platform != "linux":
        pytest.skip("threads stay on a processor as Linux has it")
    program = tmp_path / source.stem
    command = [*compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", str(source), "-o", program]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    called = subprocess.run([program], capture_output=True, text=True, check=False)
    assert called.returncode == 2
    assert str(program) in called.stderr
