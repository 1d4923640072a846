"""Every CUDA source compiles without warnings from the oldest architecture to the newest, for Hopper without spills.

The programs of benchmarks/ are for Hopper alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import warnings
from pathlib import Path

import pytest

from ksmm.toolchain import CUDA_FLAGS, HOPPER
from tests.compilers import REQUIRED
from tests.cuda.nvcc import ROOT, SOURCES, compiles_fast, known_architectures, nvcc_or_skip

ARCHITECTURES = (75, 80, 90, 100, 120)
"""The oldest, the newest, one of 10.x, and where the sources tell one from another (__CUDA_ARCH__).

What compiles for one does so for those up to the next: they see the same lines, and have all instructions of that one.
"""

HAS_NOTHING_OF_HOPPER = (100,)
"""What csrc/cuda/hopper is not compiled for: in it are only lines of the host, which 75, 80 and 120 compile."""

TUNED_FOR = 90
SPILLED_BYTES = {"hopper": 256}
"""By folder, what a kernel may spill: the largest tiles for Hopper spill a little and are still the fastest."""

_THRESHOLD = re.compile(r"__CUDA_ARCH__\s*[<>=!]=?\s*(\d+)")
_ENTRY = re.compile(
    r"Compiling entry function '(?P<name>\w+)' for 'sm_(?P<architecture>\d+)\w*'.*?"
    r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers",
    re.DOTALL,
)


FAST = "--Ofast-compile=max"
"""Of the device's code, for architectures whose machine code is not looked at: a fifth of the time."""


def compiled(nvcc: str, source: Path, folder: Path, names: list[str], *more: str) -> str:
    """What the compiler says of a source for the architectures of those names; it must take it, without a warning."""
    targets = [f"-gencode=arch=compute_{name},code=sm_{name}" for name in names]
    flags = [*CUDA_FLAGS, "-Werror", "all-warnings", "--threads", "2", *more, *targets]
    command = [nvcc, *flags, str(source), "-o", str(folder / "output")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    report = result.stdout + result.stderr
    assert result.returncode == 0, report
    assert "warning" not in report.lower()
    return report


@pytest.mark.parametrize("source", sorted(SOURCES.rglob("*.cu")), ids=lambda path: path.stem)
def test_compiles_without_warnings_or_spills(source: Path, tmp_path: Path) -> None:
    nvcc = nvcc_or_skip()
    wanted = [number for number in ARCHITECTURES if number in known_architectures(nvcc)]
    if unknown := sorted(set(ARCHITECTURES) - set(wanted)):
        assert not os.environ.get(REQUIRED), f"this nvcc does not know {unknown}, and {REQUIRED} is set"
        warnings.warn(f"this nvcc does not know the architectures {unknown}", stacklevel=1)
    # What is for Hopper is compiled for 90a alone in a build with Hopper, and for the others in one without.
    is_for_hopper, with_hopper = source.parent.name == "hopper", "-DKSMM_SM90A"
    left_out = {TUNED_FOR, *(HAS_NOTHING_OF_HOPPER if is_for_hopper else ())}
    others = [str(number) for number in wanted if number not in left_out]
    together = others if not is_for_hopper and not compiles_fast(nvcc) else []
    report = compiled(nvcc, source, tmp_path, [*together, HOPPER], with_hopper, "-c", "-Xptxas", "-v")
    if is_for_hopper:
        compiled(nvcc, source, tmp_path, others, "-c")
    elif not together:
        compiled(nvcc, source, tmp_path, others, with_hopper, "-fatbin", FAST)  # the host's code is that of before
    assert "Potential Performance Loss" not in report, "the compiler makes products wait for each other:\n" + report
    spilled = [
        f"{entry['name']}: {entry['stores']} bytes stored, {entry['loads']} loaded"
        for entry in _ENTRY.finditer(report)
        if int(entry["architecture"]) == TUNED_FOR
        and max(int(entry["stores"]), int(entry["loads"])) > SPILLED_BYTES.get(source.parent.name, 0)
    ]
    assert not spilled, "kernels that spill registers:\n" + "\n".join(spilled)
    if "__global__" in source.read_text() or source.stem in {"strict_float32", "tensor_float16", "simt_float16"}:
        assert any(int(entry["architecture"]) == TUNED_FOR for entry in _ENTRY.finditer(report)), report[:2000]


def test_sources_tell_no_architectures_apart_but_those_compiled() -> None:
    """Else those between two of ARCHITECTURES could have lines of their own, which nothing compiles."""
    files = [path for path in SOURCES.parent.rglob("*") if path.suffix in {".cu", ".cuh", ".h"}]
    thresholds = {int(number) for path in files for number in _THRESHOLD.findall(path.read_text())}
    assert thresholds == {800, 900}
    assert thresholds <= {10 * number for number in ARCHITECTURES}


@pytest.mark.parametrize("source", sorted(ROOT.glob("benchmarks/*.cu")), ids=lambda path: path.stem)
def test_a_program_that_measures_the_hardware_compiles(source: Path, tmp_path: Path) -> None:
    nvcc = nvcc_or_skip()
    flags = ["-std=c++17", f"-arch=sm_{HOPPER}", "-Werror", "all-warnings", *([FAST] if compiles_fast(nvcc) else [])]
    flags += ["-DKSMM_SM90A"] if "-DKSMM_SM90A" in source.read_text() else []  # as the command in the file says
    command = [nvcc, *flags, "-c", str(source), "-o", str(tmp_path / "object.o")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
