"""The CPU's kernel by tiles, with its AVX-512 and AMX instructions in plain C++, under AddressSanitizer: on any x86-64.

tests/test_kernel_tiles.py runs the kernel itself, where the machine has AMX.
"""

from __future__ import annotations

import platform
import random
import subprocess
from pathlib import Path

import pytest

from ksmm.toolchain import find_cxx

SOURCE = Path(__file__).parent / "emulate.cpp"
CASES = 60


def compiled(folder: Path) -> Path:
    """The program; with AddressSanitizer where the compiler has it."""
    if platform.machine() != "x86_64":
        pytest.skip(f"the headers of these instructions are those of x86-64, and this is {platform.machine()}")
    compiler = find_cxx()
    if compiler is None:
        pytest.skip("no C++ compiler was found")
    program = folder / "emulate"
    command = [*compiler, "-std=c++17", "-O1", "-Wno-psabi", str(SOURCE), "-o", str(program)]
    sanitized = subprocess.run([*command, "-fsanitize=address"], capture_output=True, text=True, check=False)
    if sanitized.returncode:
        plain = subprocess.run(command, capture_output=True, text=True, check=False)
        assert plain.returncode == 0, plain.stdout + plain.stderr
    return program


def test_products_and_what_is_left_to_multiply_adds(tmp_path: Path) -> None:
    seed = random.randrange(2**31)
    command = [str(compiled(tmp_path)), str(CASES), str(seed)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"seed {seed}\n{result.stdout}{result.stderr}"
    assert result.stdout.count(f"0 of {CASES} wrong") == 3
