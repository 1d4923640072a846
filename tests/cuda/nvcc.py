"""nvcc, found once for the tests that need the compiler but no GPU."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from ksmm.toolchain import cuda_home
from tests.compilers import skip_or_fail

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "ksmm" / "csrc" / "cuda"


def nvcc_or_skip() -> str:
    """The path of nvcc; skips the test where there is none, or fails it (`skip_or_fail`)."""
    home = cuda_home()
    if home is None:
        skip_or_fail("nvcc was not found (looked in CUDA_HOME, on PATH and in /usr/local/cuda)")
    return str(home / "bin" / "nvcc")


@functools.cache
def known_architectures(nvcc: str) -> frozenset[int]:
    """The compute capabilities that this nvcc compiles for: 75, 80, …"""
    listed = subprocess.run([nvcc, "--list-gpu-arch"], capture_output=True, text=True, check=True).stdout.split()
    return frozenset(int(name.removeprefix("compute_")) for name in listed)


@functools.cache
def compiles_fast(nvcc: str) -> bool:
    """Whether this nvcc has -Ofast-compile (since CUDA 12.9)."""
    return "-Ofast-compile" in subprocess.run([nvcc, "--help"], capture_output=True, text=True, check=True).stdout
