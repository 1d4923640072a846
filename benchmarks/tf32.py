"""float32 where PyTorch is told that TF32 will do: the kernel against the others in the same accuracy class.

    python benchmarks/tf32.py --device cuda > tf32.csv

A row for each pattern and layout; an empty cell is an implementation that does not take it. All are measured in turns,
so many rounds, and the times are their medians; `kernel_over_best` is below 1 where the kernel is faster than every
other one. Products below 200 µs are replayed from a CUDA graph. A CPU need not have TF32: there it shows only that the
script runs.
"""

from __future__ import annotations

import argparse
import csv
import functools
import sys

import torch
from gradients import PATTERNS
from side_by_side import (
    add_device,
    in_turns,
    products_by_name,
    require,
    seconds_without_launch,
    times_and_ratio,
)

from ksmm.cli_arguments import parsed_pattern, positive_integer, positive_seconds
from ksmm.measure.protocol import Protocol
from ksmm.networks.accuracy import precision
from ksmm.patterns import Pattern
from ksmm.problem import LAYOUTS, Problem

IMPLEMENTATIONS = ("kernel", "bmm", "bmm_strided", "einsum", "dense")
MORE_PATTERNS = ("1,512,512,4", "16,192,192,16", "1,1024,1024,4")


def times_of_problem(problem: Problem, protocol: Protocol, rounds: int) -> dict[str, list[float]]:
    """Seconds of each implementation that takes the problem, in each round, TF32 allowed."""
    with precision("tf32"), torch.no_grad():
        products = products_by_name(problem, IMPLEMENTATIONS, protocol.seed)
        measurements = {
            name: functools.partial(seconds_without_launch, run, problem.device_type, protocol)
            for name, run in products.items()
        }
        return in_turns(measurements, rounds)


def main() -> None:
    """Measures and writes CSV to the standard output, row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    patterns = [Pattern.parse(pattern) for pattern in (*PATTERNS, *MORE_PATTERNS)]
    parser.add_argument("--patterns", nargs="+", type=parsed_pattern, default=patterns)
    parser.add_argument("--batch", type=positive_integer, default=25088)
    parser.add_argument("--layouts", nargs="+", default=LAYOUTS, choices=LAYOUTS)
    add_device(parser)
    parser.add_argument("--rounds", type=positive_integer, default=3)
    parser.add_argument("--max-seconds", type=positive_seconds, default=0.02, help="for each number of a round")
    arguments = parser.parse_args()
    protocol = Protocol(max_seconds=arguments.max_seconds, rest_seconds=0.1)
    problem = Problem(arguments.patterns[0], arguments.batch, torch.float32, arguments.layouts[0], arguments.device)
    require(parser, problem)
    writer = csv.writer(sys.stdout)
    writer.writerow(["pattern", "batch_size", "layout", *(f"{name}_s" for name in IMPLEMENTATIONS), "kernel_over_best"])
    for pattern in arguments.patterns:
        for layout in arguments.layouts:
            problem = Problem(pattern, arguments.batch, torch.float32, layout, arguments.device)
            cells, ratio = times_and_ratio(times_of_problem(problem, protocol, arguments.rounds), IMPLEMENTATIONS)
            writer.writerow([pattern, arguments.batch, layout, *cells, f"{ratio:.4g}"])
            sys.stdout.flush()


if __name__ == "__main__":
    main()
