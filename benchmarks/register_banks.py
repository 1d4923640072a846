"""How the float32 multiply-adds of a kernel read their registers, from its machine code; no GPU needed.

    nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a -cubin -o strict.cubin ksmm/csrc/cuda/strict_float32.cu
    nvdisasm -c strict.cubin > strict.sass     # of the CUDA toolkit, or of the wheel nvidia-cuda-nvdisasm
    python benchmarks/register_banks.py strict.sass

A model, by which docs/float32.md tells good code from bad, not how long it takes: even and odd registers are two banks,
each of which gives one register a cycle; an operand that the multiply-add before had in the same place, marked for
reuse, is not read again. `cycles` is what a multiply-add takes by that, in the mean; `one_bank` how many of them read
all that they read from one bank, in per cent.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_FUNCTION = re.compile(r"\.text\.(\S+):")
_MULTIPLY_ADD = re.compile(r"\s+/\*[0-9a-f]+\*/\s+FFMA\S*\s+(.*?)\s*;")
_REGISTER = re.compile(r"R(\d+)(\.reuse)?$")


def multiply_adds(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """The function and the operands (result first) of each multiply-add, in the order of the code."""
    function = ""
    for line in lines:
        begins, is_one = _FUNCTION.match(line), _MULTIPLY_ADD.match(line)
        if begins:
            function = begins[1]
        elif is_one:
            yield function, [operand.strip() for operand in is_one[1].split(",")]


def banks_of(operands: list[str], kept: dict[int, int]) -> list[int]:
    """How many registers each bank gives to one multiply-add. kept: place -> register, replaced by what it keeps."""
    read: list[set[int]] = [set(), set()]
    keeps = {}
    for place, operand in enumerate(operands[1:4]):
        register = _REGISTER.match(operand)
        if register is None:
            continue
        number = int(register[1])
        if kept.get(place) != number:
            read[number % 2].add(number)
        if register[2]:
            keeps[place] = number
    kept.clear()
    kept.update(keeps)
    return [len(registers) for registers in read]


def main() -> None:
    """Writes CSV to the standard output, a row for each kernel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("code", type=Path)
    reads: dict[str, list[list[int]]] = {}
    kept: dict[int, int] = {}
    arguments = parser.parse_args()
    try:
        lines = arguments.code.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"{arguments.code} is not code as nvdisasm writes it: {error}")
    for function, operands in multiply_adds(lines):
        if function not in reads:
            reads[function] = []
            kept.clear()
        reads[function].append(banks_of(operands, kept))
    writer = csv.writer(sys.stdout)
    writer.writerow(["kernel", "multiply_adds", "registers_read", "cycles", "one_bank"])
    for function, banks in sorted(reads.items()):
        count = len(banks)
        writer.writerow(
            [
                function,
                count,
                f"{sum(map(sum, banks)) / count:.2f}",
                f"{sum(max(1, *each) for each in banks) / count:.2f}",
                f"{100 * sum(min(each) == 0 and max(each) > 1 for each in banks) / count:.1f}",
            ]
        )


if __name__ == "__main__":
    main()
