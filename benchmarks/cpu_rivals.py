"""The CPU kernel against every other implementation, lazylinop among them where it is installed.

    python benchmarks/cpu_rivals.py --batch 1024 > rivals.csv

Takes turns, and keeps the shortest time of each: other programs on the machine disturb them alike. In its turn each
runs twice, since after another one it may be handed memory that the system has yet to find or, on a virtual machine,
has never touched. The last line, on the standard error, says how many times as fast as the best other one the kernel
is, and on how many patterns it is faster.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import time
from collections.abc import Callable

import torch
from side_by_side import products_by_name, require

from ksmm.cli_arguments import parsed_pattern, positive_integer, positive_number
from ksmm.implementations import implementations
from ksmm.pattern_lists import benchmark_patterns, stratified_sample
from ksmm.problem import DTYPES, LAYOUTS, Problem

RUNS = 2
"""In each turn."""

HOPELESS, DISTURBED_S = 3, 0.1
"""An implementation that took so many times as long as the best is not run again: after the first round if it takes
longer than a program that had the processor may have made it (4 to 16 ms were seen), else after the third."""


def products(problem: Problem, most_operations: float) -> dict[str, Callable[[], object]]:
    """A product by each implementation that takes the problem, its weights packed.

    Args:
        problem: what is multiplied.
        most_operations: where the dense matrix has more, it is left out.
    """
    left_out = {"kernel_strict"}  # our own
    if 2.0 * problem.batch_size * problem.pattern.rows * problem.pattern.columns > most_operations:
        left_out.add("dense")
    return products_by_name(problem, (name for name in implementations() if name not in left_out), seed=0)


def shortest_times(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of each, the shortest of so many rounds."""
    shortest: dict[str, float] = {}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            if turn > (1 if shortest.get(name, 0.0) > DISTURBED_S else 3) and (
                shortest[name] > HOPELESS * min(shortest.values())
            ):
                continue
            seconds = min(_seconds(run) for _ in range(RUNS))
            if turn > 0:  # the first round warms up
                shortest[name] = min(seconds, shortest.get(name, seconds))
    return shortest


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    """Measures and writes CSV to the standard output, row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patterns", nargs="+", type=parsed_pattern, help="default: a sample of the benchmark's")
    parser.add_argument("--sample", type=positive_integer, default=30, help="how many patterns")
    parser.add_argument(
        "--largest",
        type=positive_number,
        default=2e6,
        help="no pattern with more nonzero entries, or with more than a 500th of it in features",
    )
    parser.add_argument("--batch", type=positive_integer, default=1024)
    parser.add_argument("--dtype", default="float32", choices=list(DTYPES))
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS), choices=list(LAYOUTS))
    parser.add_argument("--rounds", type=positive_integer, default=10)
    parser.add_argument("--most-operations", type=positive_number, default=2e11, help="of a dense product")
    arguments = parser.parse_args()
    small = [
        pattern for pattern in benchmark_patterns() if max(pattern.nnz, 500 * max(pattern.shape)) <= arguments.largest
    ]
    if not (small or arguments.patterns):
        parser.error(f"no pattern of the benchmark is as small as --largest {arguments.largest:g}; try 2e6")
    patterns = arguments.patterns or stratified_sample(small, arguments.sample)
    require(parser, Problem(patterns[0], arguments.batch, DTYPES[arguments.dtype], arguments.layouts[0]))
    writer = csv.writer(sys.stdout)
    writer.writerow(["pattern", "batch_size", "dtype", "layout", "kernel_s", "best_other", "best_other_s", "speedup"])
    for layout in arguments.layouts:
        speedups = []
        for pattern in patterns:
            problem = Problem(pattern, arguments.batch, DTYPES[arguments.dtype], layout)
            with torch.no_grad():
                shortest = shortest_times(products(problem, arguments.most_operations), arguments.rounds)
            kernel = shortest.pop("kernel")
            best = min(shortest, key=shortest.get)
            speedups.append(shortest[best] / kernel)
            row = [pattern, arguments.batch, arguments.dtype, layout, f"{kernel:.4g}", best, f"{shortest[best]:.4g}"]
            writer.writerow([*row, f"{speedups[-1]:.3f}"])
            sys.stdout.flush()
        faster = sum(speedup > 1 for speedup in speedups)
        sys.stderr.write(
            f"{layout}: {statistics.median(speedups):.2f} times as fast as the best other (median), "
            f"faster on {faster} of {len(speedups)}\n"
        )


if __name__ == "__main__":
    main()
