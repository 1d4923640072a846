"""Every CUDA source compiles without warnings from the oldest architecture to the newest, for Hopper without spills."""

from __future__ import annotations

import re
import subprocess
import warnings
from pathlib import Path

import pytest

from ksmm.toolchain import CUDA_FLAGS, HOPPER
from tests.cuda.nvcc import SOURCES, known_architectures, nvcc_or_skip

ARCHITECTURES = (75, 80, 120)
"""Beside Hopper: the oldest, the newest, and where the sources tell one from another (__CUDA_ARCH__)."""

SPILLED_BYTES = {"hopper": 256}
"""By folder, what a kernel may spill: the largest tiles for Hopper spill a little and are still the fastest."""

_ENTRY = re.compile(
    r"Compiling entry function '(?P<name>\w+)' for 'sm_90a'.*?"
    r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads",
    re.DOTALL,
)


SOURCE_FILES = pytest.mark.parametrize("source", sorted(SOURCES.rglob("*.cu")), ids=lambda path: path.stem)


def compile_for(source: Path, architectures: list[str], options: list[str], folder: Path) -> str:
    """What nvcc reports of a source that it compiles without warnings for these architectures."""
    # A build for several architectures compiles a file for Hopper for all of them.
    targets = [*(f"-gencode=arch=compute_{name},code=sm_{name}" for name in architectures), "-DKSMM_SM90A"]
    flags = [*CUDA_FLAGS, "-Werror", "all-warnings", *options, *targets]
    command = [nvcc_or_skip(), *flags, "-c", str(source), "-o", str(folder / "object.o")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    report = result.stdout + result.stderr
    assert result.returncode == 0, report
    assert "warning" not in report.lower()
    return report


@SOURCE_FILES
def test_compiles_for_the_oldest_and_the_newest(source: Path, tmp_path: Path) -> None:
    known = known_architectures(nvcc_or_skip())
    if unknown := sorted(set(ARCHITECTURES) - known):
        warnings.warn(f"this nvcc does not know the architectures {unknown}", stacklevel=1)
    names = [str(number) for number in ARCHITECTURES if number in known]
    # without optimisation, which finds the same errors in a third of the time
    compile_for(source, names, ["--threads", "2", "-Xcicc", "-O0", "-Xptxas", "-O0"], tmp_path)


@SOURCE_FILES
def test_compiles_for_hopper_without_spills(source: Path, tmp_path: Path) -> None:
    report = compile_for(source, [HOPPER], ["-Xptxas", "-v"], tmp_path)
    kernels = list(_ENTRY.finditer(report))
    spilled = [
        f"{entry['name']}: {entry['stores']} bytes stored, {entry['loads']} loaded"
        for entry in kernels
        if max(int(entry["stores"]), int(entry["loads"])) > SPILLED_BYTES.get(source.parent.name, 0)
    ]
    assert not spilled, "kernels that spill registers:\n" + "\n".join(spilled)
    if "__global__" in source.read_text() or source.stem in {"strict_float32", "tensor_float16", "simt_float16"}:
        assert kernels, report[:2000]
