"""How the kernel takes sizes that are no multiples of anything: its time against that of the next aligned size.

    python benchmarks/off_grid.py --device cuda --dtype float16 > off_grid.csv

A row for each size and layout: `over_neighbour` is its time over the neighbour's, `per_operation` the same for each
operation; both should stay below 2, the second one where the launch does not rule (batch 1 has no neighbour that does
as little). Products below 200 µs are replayed from a CUDA graph.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator

from side_by_side import add_device, require, seconds_of_product

from ksmm.cli_arguments import parsed_pattern, positive_integer, positive_seconds
from ksmm.implementations import implementations
from ksmm.measure.protocol import Protocol
from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, LAYOUTS, Problem

COLUMNS = ["pattern", "batch_size", "neighbour", "neighbour_batch_size", "dtype", "layout"]
TIMES = ["time_s", "neighbour_s", "over_neighbour", "per_operation"]
BASES = ("4,64,64,16", "1,192,192,48", "2,128,128,4", "1,256,256,1")
BATCHES = {1: 8, 77: 80, 1000: 1024, 25087: 25088}
SIDES = {40: 48, 56: 64, 200: 208}


def cases(bases: list[Pattern], batch_size: int) -> Iterator[tuple[Pattern, int, Pattern, int]]:
    """A problem and its aligned neighbour: pattern and batch size of each.

    Args:
        bases: patterns whose batch size, b and c are varied.
        batch_size: the largest to measure; of the problems with another b or c.
    """
    for base in bases:
        for odd, even in BATCHES.items():
            if odd <= batch_size:
                yield base, odd, base, even
        for odd, even in SIDES.items():
            a, b, c, d = base.a, base.b, base.c, base.d
            yield Pattern(a, odd, c, d), batch_size, Pattern(a, even, c, d), batch_size
            yield Pattern(a, b, odd, d), batch_size, Pattern(a, b, even, d), batch_size


def main() -> None:
    """Measures and writes CSV to the standard output, row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patterns", nargs="+", type=parsed_pattern, default=[Pattern.parse(base) for base in BASES])
    parser.add_argument("--batch", type=positive_integer, default=25088)
    add_device(parser)
    parser.add_argument("--dtype", default="float16", choices=list(DTYPES))
    parser.add_argument("--implementation", default="kernel", choices=list(implementations()))
    parser.add_argument("--max-seconds", type=positive_seconds, default=0.2, help="for each number")
    arguments = parser.parse_args()
    protocol = Protocol(max_seconds=arguments.max_seconds)
    writer = csv.writer(sys.stdout)
    writer.writerow(COLUMNS + TIMES)
    for pattern, batch, neighbour, neighbour_batch in cases(arguments.patterns, arguments.batch):
        for layout in LAYOUTS:
            problems = [
                Problem(of, size, DTYPES[arguments.dtype], layout, arguments.device)
                for of, size in ((pattern, batch), (neighbour, neighbour_batch))
            ]
            for problem in problems:
                require(parser, problem, arguments.implementation)
            seconds = [seconds_of_product(problem, arguments.implementation, protocol) for problem in problems]
            ratio = seconds[0] / seconds[1]
            work = (pattern.nnz * batch) / (neighbour.nnz * neighbour_batch)
            row = [pattern, batch, neighbour, neighbour_batch, arguments.dtype, layout]
            writer.writerow([*row, *(f"{number:.4g}" for number in (*seconds, ratio, ratio / work))])
            sys.stdout.flush()


if __name__ == "__main__":
    main()
