"""The CUDA kernels' own index arithmetic, copies and stores, run on the CPU under AddressSanitizer; no GPU needed."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from tests.cuda.nvcc import ROOT, known_architectures, nvcc_or_skip


def compiled(name: str, folder: Path) -> Path:
    """The program of that name; with AddressSanitizer where the host compiler has it."""
    nvcc = nvcc_or_skip()
    program = folder / name
    source = ROOT / "tests" / "cuda" / f"{name}.cu"
    architecture = min(number for number in known_architectures(nvcc) if number >= 80)
    flags = ["-std=c++17", "-O1", f"-arch=sm_{architecture}", str(source), "-o", str(program)]
    sanitized = subprocess.run(
        [nvcc, "-Xcompiler", "-fsanitize=address", *flags], capture_output=True, text=True, check=False
    )
    if sanitized.returncode:
        plain = subprocess.run([nvcc, *flags], capture_output=True, text=True, check=False)
        assert plain.returncode == 0, plain.stdout + plain.stderr
    return program


@pytest.mark.parametrize(
    ("name", "cases", "kinds"),
    [
        ("emulate", 40, 4),
        ("emulate_transposition", 300, 2),
        ("emulate_exchange", 20, 7),
        ("emulate_overlapped", 200, 3),
        ("emulate_machine", 300, 1),
        ("emulate_shifted", 60, 8),
        ("emulate_tf32_shifted", 40, 2),
        ("emulate_gemm", 30, 30),
        ("emulate_gradient", 8, 6),
        ("emulate_planes", 20, 10),
    ],
)
def test_emulated_kernels_do_what_a_plain_loop_does(name: str, cases: int, kinds: int, tmp_path: Path) -> None:
    """In so many random cases of each kind: dtypes and strict tiles, sizes of elements, tiles, or ways."""
    seed = random.randrange(2**31)
    command = [str(compiled(name, tmp_path)), str(cases), str(seed)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"seed {seed}\n{result.stdout}{result.stderr}"
    assert result.stdout.count(f"0 of {cases} wrong") == kinds
