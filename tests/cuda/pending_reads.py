"""Reads of shared memory that may be on their way when a thread arrives at a barrier there, from machine code:

    cuobjdump -sass ksmm/_build/*/cuda-hopper-planes_float16.cu.o | python tests/cuda/pending_reads.py

A thread arrives at such a barrier (mbarrier) to say that it has read what another may overwrite. The compiler does not
wait for the reads before: what threads write comes after them all the same, but not what the copy engine does. So there
is a line for each arrival that no wait for a read comes before, on some way to it, with the places of such reads. Exit
status 1 if they may be of what is given back there: all but those of X's next stage in the planes kernel, where W or a
bias is. Compute capability 9.0.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

FUNCTION = re.compile(r"Function : (.*)")
FIRST_WORD = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?);\s+/\* 0x[0-9a-f]{16} \*/")
SECOND_WORD = re.compile(r"^\s+/\* 0x([0-9a-f]{16}) \*/")
BRANCH = re.compile(r"BRA\S*\s.*?(0x[0-9a-f]+)")
WAIT_FOR_ALL = re.compile(r"DEPBAR\.LE SB(\d), 0x0")
PREDICATE = re.compile(r"^@!?U?P\w+\s+")
PLANES_TILE = re.compile(r"13planes_kernel.*10PlanesTileI((?:L[ib]\d+E)+)E")
BARRIER = re.compile(r"\[\w+(?:\+URZ)?(?:\+(0x[0-9a-f]+))?\]")
NONE = 7
"""What stands where an instruction signals no scoreboard."""


class Instruction(NamedTuple):
    """Where it is, what it is with its predicate, the scoreboard that it signals when its result is there, and a bit
    for each that it waits for. The last two are in bits 46 to 48 and 52 to 57 of its second word (Z. Jia, M. Maggioni,
    B. Staiger, D. P. Scarpazza, Dissecting the NVIDIA Volta GPU architecture via microbenchmarking, 2018, 2.1)."""

    place: int
    text: str
    signals: int
    waits: int


class Read(NamedTuple):
    """A read of shared memory, by its scoreboard and its place."""

    scoreboard: int
    place: int


def functions(lines: Iterable[str]) -> Iterator[tuple[str, list[Instruction]]]:
    """The kernels of what `cuobjdump -sass` prints."""
    name, instructions, first = "", [], None
    for line in lines:
        if found := FUNCTION.search(line):
            if instructions:
                yield name, instructions
            name, instructions, first = found[1], [], None
        elif found := FIRST_WORD.search(line):
            first = int(found[1], 16), found[2].strip()
        elif first and (found := SECOND_WORD.match(line)):
            word = int(found[1], 16)
            instructions.append(Instruction(*first, word >> 46 & 7, word >> 52 & 63))
            first = None
    if instructions:
        yield name, instructions


def after(instruction: Instruction, pending: frozenset[Read]) -> frozenset[Read]:
    """The reads that may be on their way once it is issued."""
    if found := WAIT_FOR_ALL.match(instruction.text):
        return frozenset(read for read in pending if read.scoreboard != int(found[1]))
    pending = frozenset(read for read in pending if not instruction.waits >> read.scoreboard & 1)
    if PREDICATE.sub("", instruction.text).startswith("LDS") and instruction.signals != NONE:
        return pending | {Read(instruction.signals, instruction.place)}
    return pending


def arrivals(instructions: list[Instruction]) -> dict[int, frozenset[Read]]:
    """By the place of an arrival, the reads that may be on their way there; of those where there are any."""
    index = {instruction.place: at for at, instruction in enumerate(instructions)}
    before: list[frozenset[Read] | None] = [None] * len(instructions)
    ways = [(0, frozenset[Read]())]
    while ways:
        at, pending = ways.pop()
        while at < len(instructions):
            known = before[at]
            pending = pending if known is None else known | pending
            if pending == known:
                break
            before[at] = pending
            instruction = instructions[at]
            pending, bare = after(instruction, pending), PREDICATE.sub("", instruction.text)
            always = bare == instruction.text
            if found := BRANCH.match(bare):
                ways.append((index[int(found[1], 16)], pending))
            if always and (bare.startswith("EXIT") or (found and ".U" not in bare.split()[0])):
                break
            at += 1
    return {
        instruction.place: of_others
        for instruction, pending in zip(instructions, before, strict=True)
        if "SYNCS.ARRIVE" in instruction.text and pending
        if (of_others := frozenset(read for read in pending if not instruction.waits >> read.scoreboard & 1))
    }


def is_of_another(name: str, text: str) -> bool:
    """Whether a planes kernel arrives there at a barrier of W or of the bias (PlanesShared in planes_producer.cuh).

    That of another block stands in a register: X's in tiles that share X alone, and either in those that share both, of
    which a kernel has one such arrival for W (`too_early`).
    """
    if not (found := PLANES_TILE.search(name)):
        return False
    _, _, _, x_stages, weight_stages, _, _, _, along_n, _ = map(int, re.findall(r"\d+", found[1]))
    if ".RED" in text:
        return along_n > 1
    barrier = BARRIER.search(text)
    place = int((barrier and barrier[1]) or "0", 16) // 8
    first_of_weight, bias = 2 * x_stages + weight_stages, 2 * (x_stages + weight_stages) + 1
    return first_of_weight <= place < first_of_weight + weight_stages or place == bias


def too_early(name: str, texts: list[str]) -> int:
    """How many of a kernel's arrivals with reads on their way may be for what is being read."""
    of_others = [text for text in texts if is_of_another(name, text)]
    remote = sum(".RED" in text for text in of_others)
    return len(texts) - len(of_others) + max(remote - 1, 0)


def main() -> int:
    """Lists them, and says how many kernels were read; 1 if an arrival is too early, 2 if there was no kernel."""
    count = wrong = 0
    for name, instructions in functions(sys.stdin):
        count += 1
        text = {instruction.place: instruction.text for instruction in instructions}
        found = arrivals(instructions)
        for place, reads in sorted(found.items()):
            places = " ".join(f"{read.place:x}" for read in sorted(reads, key=lambda read: read.place))
            sys.stdout.write(f"{name}: {place:x} {text[place]}: {places}\n")
        wrong += too_early(name, [text[place] for place in found])
    sys.stdout.write(f"{count} kernels, {wrong} arrivals too early\n")
    return 2 if count == 0 else int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
