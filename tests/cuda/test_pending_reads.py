"""Which reads may be on their way at an arrival, of a few instructions as cuobjdump prints them."""

from __future__ import annotations

import io
import sys

import pytest

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
    assert pending_reads.main() == 0
    *listed, count = capsys.readouterr().out.splitlines()
    assert count == "1 kernels"
    assert [line.split(": ")[-1] for line in listed] == ([" ".join(places)] if places else [])
    assert all(line.startswith("planes_kernel: ") and ARRIVAL[0] in line for line in listed)


def test_no_kernels_are_an_error(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("Fatbin elf code:\n"))
    assert pending_reads.main() == 2
    assert capsys.readouterr().out == "0 kernels\n"


def test_kernels_are_told_apart() -> None:
    text = printed([READ, ARRIVAL, END], "one") + printed([ARRIVAL, END], "another")
    found = {name: pending_reads.arrivals(lines) for name, lines in pending_reads.functions(text.splitlines())}
    assert found == {"one": {0x10: {pending_reads.Read(3, 0)}}, "another": {}}
