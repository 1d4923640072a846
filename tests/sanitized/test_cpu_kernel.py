"""The CPU's kernel under AddressSanitizer on problems of random shapes: each variant that this machine can run, and
that by tiles, with its AVX-512 and AMX instructions in plain C++, on any x86-64.

tests/test_kernel_tiles.py runs the kernel by tiles itself, where the machine has AMX.
"""

from __future__ import annotations

import platform
import random
import subprocess
from pathlib import Path

import pytest

from ksmm.toolchain import VARIANT_FLAGS, find_cxx

FOLDER = Path(__file__).parent
CASES = {"tiles": 60, "variant": 30}
NEEDED = {
    "baseline": set(),
    "avx2": {"avx2", "fma", "f16c"},
    "avx512": {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"},
    "avx512_bf16": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_bf16"},
}
"""By variant, what Linux calls the instructions that it needs."""


def instructions() -> set[str]:
    """Those of this machine, as Linux lists them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return {word for line in lines if line.startswith("flags") for word in line.split()}


def wrong_cases(program: str, folder: Path, *flags: str) -> str:
    """What the program says of its cases, compiled with AddressSanitizer where the compiler has it."""
    compiler = find_cxx()
    if compiler is None:
        pytest.skip("no C++ compiler was found")
    built = folder / program
    command = [*compiler, "-std=c++17", "-Wno-psabi", "-pthread", *flags, str(FOLDER / f"{program}.cpp"), "-o"]
    sanitized = subprocess.run(
        [*command, str(built), "-fsanitize=address"], capture_output=True, text=True, check=False
    )
    if sanitized.returncode:
        plain = subprocess.run([*command, str(built)], capture_output=True, text=True, check=False)
        assert plain.returncode == 0, plain.stdout + plain.stderr
    seed = random.randrange(2**31)
    result = subprocess.run([built, str(CASES[program]), str(seed)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"seed {seed}\n{result.stdout}{result.stderr}"
    return result.stdout


def test_products_by_tiles_and_what_is_left_to_multiply_adds(tmp_path: Path) -> None:
    if platform.machine() != "x86_64":
        pytest.skip(f"the headers of these instructions are those of x86-64, and this is {platform.machine()}")
    assert wrong_cases("tiles", tmp_path, "-O1").count(f"0 of {CASES['tiles']} wrong") == 3


@pytest.mark.parametrize("variant", NEEDED)
def test_products_by_multiply_adds(variant: str, tmp_path: Path) -> None:
    if missing := NEEDED[variant] - instructions():
        pytest.skip(f"this machine has no {', '.join(sorted(missing))}")
    # as it is compiled for the library, but not optimised, which takes as long again
    flags = [
        "-O0",
        "-ffp-contract=fast",
        f"-DKSMM_VARIANT=sanitized_{variant}",
        *VARIANT_FLAGS.get(f"variant_{variant}", ()),
    ]
    dtypes = 1 if variant == "avx512_bf16" else 3  # that one is for bfloat16 alone
    assert wrong_cases("variant", tmp_path, *flags).count(f"0 of {CASES['variant']} wrong") == dtypes
