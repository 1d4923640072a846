"""Which reads may be on their way at an arrival: of a few instructions as cuobjdump prints them, and of our kernels."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ksmm import build
from ksmm.toolchain import cuda_home
from tests.cuda import pending_reads

NONE = pending_reads.NONE
Line = tuple[str, int, int]  # an instruction, the scoreboard that it signals, the bits of those that it waits for
READ: Line = ("LDS.128 R4, [R2]", 3, 0)
ARRIVAL: Line = ("@!P1 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR8+0x20], RZ", NONE, 0)
OTHER: Line = ("PRMT R4, R4, 0x5410, R5", NONE, 0)
USE: Line = ("PRMT R4, R4, 0x5410, R5", NONE, 1 << 3)
END: Line = ("EXIT", NONE, 0)


def printed(lines: list[Line], name: str = "planes_kernel") -> str:
    text = f"\t\tFunction : {name}\n"
    for at, (instruction, signals, waits) in enumerate(lines):
        text += f"        /*{16 * at:04x}*/                   {instruction} ;  /* 0x{at:016x} */\n"
        text += f"                                                        /* 0x{signals << 46 | waits << 52:016x} */\n"
    return text


@pytest.mark.parametrize(
    ("lines", "places"),
    [
        ([READ, ARRIVAL, USE, END], ["0"]),
        ([READ, OTHER, ARRIVAL, END], ["0"]),
        ([READ, USE, ARRIVAL, END], []),
        ([READ, (ARRIVAL[0], NONE, 1 << 3), END], []),
        ([READ, ("DEPBAR.LE SB3, 0x0", NONE, 0), ARRIVAL, END], []),
        ([READ, ("DEPBAR.LE SB3, 0x1", NONE, 0), ARRIVAL, END], ["0"]),
        ([("STS [R2], R4", 3, 0), ARRIVAL, END], []),
        ([READ, (READ[0], 2, 0), USE, ARRIVAL, END], ["10"]),
        # by one way of two
        ([READ, ("@P0 BRA 0x30", NONE, 0), USE, ARRIVAL, END], ["0"]),
        ([("BRA 0x30", NONE, 0), READ, OTHER, ARRIVAL, END], []),
        # round a loop
        ([ARRIVAL, OTHER, READ, ("@P0 BRA 0x0", NONE, 0), END], ["20"]),
        ([ARRIVAL, READ, USE, ("@P0 BRA 0x0", NONE, 0), END], []),
        # nothing follows an end that is sure
        ([READ, END, ARRIVAL, END], []),
        ([READ, ("@P0 EXIT", NONE, 0), ARRIVAL, END], ["0"]),
    ],
)
def test_reads_that_may_be_on_their_way(monkeypatch, capsys, lines: list[Line], places: list[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(printed(lines)))
    assert pending_reads.main() == (1 if places else 0)
    *listed, count = capsys.readouterr().out.splitlines()
    assert count == f"1 kernels, {len(places)} arrivals too early"
    assert [line.split(": ")[-1] for line in listed] == ([" ".join(places)] if places else [])
    assert all(line.startswith("planes_kernel: ") and ARRIVAL[0] in line for line in listed)


def test_no_kernels_are_an_error(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("Fatbin elf code:\n"))
    assert pending_reads.main() == 2
    assert capsys.readouterr().out == "0 kernels, 0 arrivals too early\n"


def test_kernels_are_told_apart() -> None:
    text = printed([READ, ARRIVAL, END], "one") + printed([ARRIVAL, END], "another")
    found = {name: pending_reads.arrivals(lines) for name, lines in pending_reads.functions(text.splitlines())}
    assert found == {"one": {0x10: {pending_reads.Read(3, 0)}}, "another": {}}


SINGLE = "_ZN4ksmm6hopper13planes_kernelI6__halfNS0_10PlanesTileILi8ELi40ELi16ELi4ELi4ELb0ELb0ELi1ELi1ELi0EEEEEv"
PAIR = SINGLE.replace("Li1ELi1ELi0E", "Li2ELi1ELi0E")
QUAD = SINGLE.replace("Li1ELi1ELi0E", "Li2ELi2ELi0E")


@pytest.mark.parametrize(
    ("name", "text", "is_of_another"),
    [
        # four stages of X: barriers 0 to 7; four of W: 8 to 15; the bias's: 16 and 17
        (SINGLE, "@!P1 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR19+0x20], RZ", False),
        (SINGLE, "@!P1 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R25+URZ+0x38], RZ", False),
        (SINGLE, "@!P1 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR31+0x60], RZ", True),
        (SINGLE, "SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR8+0x88], RZ", True),
        (SINGLE, "SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR8], RZ", False),
        (PAIR, "@!P1 SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R216+URZ], RZ", False),
        (QUAD, "@!P1 SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R216+URZ], RZ", True),
        ("_ZN4ksmm6hopper15exchange_kernelI6__halfEEv", "SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR8+0x88], RZ", False),
    ],
)
def test_what_is_given_back(name: str, text: str, is_of_another: bool) -> None:
    assert pending_reads.is_of_another(name, text) is is_of_another
    assert pending_reads.too_early(name, [text]) == (0 if is_of_another else 1)


def test_one_arrival_at_another_block_is_for_w() -> None:
    arrival = "@!P1 SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R216+URZ], RZ"
    assert pending_reads.too_early(QUAD, [arrival]) == 0
    assert pending_reads.too_early(QUAD, [arrival, arrival]) == 1
    assert pending_reads.too_early(PAIR, [arrival, arrival]) == 2


def disassembler() -> str | None:
    home = cuda_home()
    beside = None if home is None else shutil.which("cuobjdump", path=str(home / "bin"))
    return beside or shutil.which("cuobjdump")


FAMILIES = sorted(path.name for path in (Path(build.__file__).parent / "csrc/cuda/hopper").glob("*.cu"))


@pytest.mark.cuda
@pytest.mark.parametrize("source", FAMILIES)
def test_no_kernel_gives_back_what_it_may_be_reading(monkeypatch, capsys, source: str) -> None:
    built, tool = build.find(), disassembler()
    if built is None or "90a" not in built.cuda_architectures or tool is None:
        pytest.skip("needs a build for 90a, and cuobjdump")
    compiled = Path(built.library).with_name(f"cuda-hopper-{source}.o")
    printed = subprocess.run([tool, "-sass", str(compiled)], capture_output=True, text=True, check=True).stdout
    monkeypatch.setattr(sys, "stdin", io.StringIO(printed))
    pending_reads.main()
    said = capsys.readouterr().out
    assert said.splitlines()[-1] == f"{printed.count('Function : ')} kernels, 0 arrivals too early", said
