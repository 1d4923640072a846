"""Every configuration of the kernel that takes a product, side by side: what a tuning file keeps the best of.

    python benchmarks/configurations.py --patterns 1,48,48,2 1,64,64,3 --batches 77 25088 --family "gemm single" planes

CSV, a row for each configuration, the cost model's choice first. Short products are replayed from CUDA graphs. On a
CPU, and where the kernel has no configurations, a row for the kernel itself.
"""

from __future__ import annotations

import argparse
import csv
import sys

from side_by_side import implementation_for, seconds_of_implementation

from ksmm.implementations import Implementation
from ksmm.implementations.kernel import Kernel
from ksmm.measure.protocol import Protocol
from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, LAYOUTS, Problem
from ksmm.tuning.contest import Configured
from ksmm.tuning.numbers import configurations_for


def contestants(problem: Problem, families: list[str]) -> dict[str, Implementation]:
    """The kernel in each configuration whose name begins with one of `families` (all, if none is named)."""
    kernel = implementation_for(problem, "kernel")
    numbers = configurations_for(kernel.name, problem)
    if not numbers or not isinstance(kernel, Kernel):
        return {kernel.name: kernel}
    wanted = [name for name in numbers if not families or name.startswith(tuple(families))]
    return {name: Configured(kernel, name, numbers[name]) for name in wanted}


def main() -> None:
    """Writes CSV to the standard output."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patterns", nargs="+", type=Pattern.parse, default=[Pattern(1, 48, 48, 2)])
    parser.add_argument("--batches", nargs="+", type=int, default=[25088])
    parser.add_argument("--dtype", default="float16", choices=list(DTYPES))
    parser.add_argument("--layout", default="batch_first", choices=list(LAYOUTS))
    parser.add_argument("--family", nargs="+", default=[], help="how the names begin of those to be measured")
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--max-seconds", type=float, default=0.05, help="for each number")
    options = parser.parse_args()
    limit = Protocol(max_seconds=options.max_seconds)
    writer = csv.writer(sys.stdout)
    writer.writerow(["pattern", "batch_size", "dtype", "layout", "configuration", "time_s", "over_fastest"])
    for pattern in options.patterns:
        for batch in options.batches:
            problem = Problem(pattern, batch, DTYPES[options.dtype], options.layout, options.device)
            names = contestants(problem, options.family)
            seconds = {name: seconds_of_implementation(problem, one, limit) for name, one in names.items()}
            for name, time in seconds.items():
                ratio = f"{time / min(seconds.values()):.4g}"
                writer.writerow([pattern, batch, options.dtype, options.layout, name, f"{time:.4g}", ratio])
            sys.stdout.flush()


if __name__ == "__main__":
    main()
