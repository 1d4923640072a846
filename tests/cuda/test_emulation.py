"""The CUDA kernels' own index arithmetic, copies and stores, run on the CPU under AddressSanitizer; no GPU needed."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from tests.cuda.nvcc import ROOT, known_architectures, nvcc_or_skip

CASES = 40  # of each dtype


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """emulate.cu, compiled; with AddressSanitizer where the host compiler has it."""
    nvcc = nvcc_or_skip()
    program = tmp_path_factory.mktemp("emulation") / "emulate"
    source = ROOT / "tests" / "cuda" / "emulate.cu"
    architecture = min(number for number in known_architectures(nvcc) if number >= 80)
    flags = ["-std=c++17", "-O1", f"-arch=sm_{architecture}", str(source), "-o", str(program)]
    sanitized = subprocess.run(
        [nvcc, "-Xcompiler", "-fsanitize=address", *flags], capture_output=True, text=True, check=False
    )
    if sanitized.returncode:
        plain = subprocess.run([nvcc, *flags], capture_output=True, text=True, check=False)
        assert plain.returncode == 0, plain.stdout + plain.stderr
    return program


def test_emulated_kernels_match_a_plain_sum(emulator: Path) -> None:
    seed = random.randrange(2**31)
    result = subprocess.run([str(emulator), str(CASES), str(seed)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"seed {seed}\n{result.stdout}{result.stderr}"
    assert result.stdout.count(f"0 of {CASES} wrong") == 3
