"""The CPU's kernel compiles for AArch64 and multiplies there: by a cross compiler, and in an emulated processor.

On AArch64 itself the other tests of the CPU's kernel do that, by the machine's own compiler.
"""

from __future__ import annotations

import platform
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ksmm import toolchain
from tests.compilers import skip_or_fail

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "ksmm" / "csrc" / "cpu"
Flags = Callable[[Path], list[str]]
COMPILER = "aarch64-linux-gnu-g++"
EMULATOR = "qemu-aarch64"
CASES = 30


def tool_or_skip(name: str) -> str:
    """The path of a tool for AArch64; skips the test where there is none, and where none is needed."""
    if platform.machine() == "aarch64":
        pytest.skip("this machine is of that kind, and the other tests run the kernel on it")
    path = shutil.which(name)
    return path if path is not None else skip_or_fail(f"{name} was not found")


@pytest.fixture
def flags(monkeypatch: pytest.MonkeyPatch) -> Flags:
    """The build's flags of a source file on a machine that is not of x86."""
    monkeypatch.setattr(toolchain, "_X86", False)
    return toolchain.compiler_flags


@pytest.mark.parametrize("source", sorted(SOURCES.glob("*.cpp")), ids=lambda path: path.stem)
def test_compiles_without_warnings(source: Path, flags: Flags, tmp_path: Path) -> None:
    # of the baseline the language alone: by -O3 it takes half a minute, and the program below has all its code
    more = ["-fsyntax-only"] if source.stem == "variant_baseline" else ["-c", "-o", str(tmp_path / "object.o")]
    command = [tool_or_skip(COMPILER), *flags(source), "-Werror", *more, str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_multiplies(flags: Flags, tmp_path: Path) -> None:
    emulator = tool_or_skip(EMULATOR)
    program, seed = tmp_path / "variant", random.randrange(2**31)
    # -O1 comes last and counts: it compiles in half the time of -O3. Static: no library of AArch64 is looked for then.
    level = ["-O1", "-static", "-pthread", "-DKSMM_VARIANT=baseline"]
    command = [tool_or_skip(COMPILER), *flags(SOURCES / "variant_baseline.cpp"), "-Werror", *level]
    command += [str(ROOT / "tests" / "sanitized" / "variant.cpp"), "-o", str(program)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    result = subprocess.run(
        [emulator, str(program), str(CASES), str(seed)], capture_output=True, text=True, check=False, timeout=300
    )
    assert result.returncode == 0, f"seed {seed}\n{result.stdout}{result.stderr}"
    assert result.stdout.count(f"0 of {CASES} wrong") == 3
