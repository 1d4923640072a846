"""Small products: whether the kernel is slower than batched matrix products where hosts and launches rule.

    python benchmarks/small_problems.py --device cuda --dtypes float16 float32 > small_problems.csv

A row for each problem and way of asking. `launched` is one by one from Python, the mean of many calls between two
synchronizations, so that what the host takes counts; `graph` is replayed from a CUDA graph of 20 products, which a CPU
does not have. Weights are packed before, without gradients, and come from the cache. All are measured in turns, so many
rounds, and the times are their medians; `kernel_over_best` should not be above 1. On the standard error, by way, dtype
and layout: the median of these ratios, and how many are above 1. Let nothing else use the processors meanwhile.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import statistics
import sys
from collections.abc import Callable

import torch
from side_by_side import (
    add_device,
    in_turns,
    products_by_name,
    require,
    seconds_of_run,
    times_and_ratio,
)

from ksmm.cli_arguments import parsed_pattern, positive_integer, positive_seconds
from ksmm.measure import timer
from ksmm.measure.protocol import Protocol
from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, LAYOUTS, Problem

IMPLEMENTATIONS = ("kernel", "bmm", "bmm_strided")
PATTERNS = (
    *("1,48,48,1", "2,48,192,1", "6,64,64,1", "1,256,256,1"),  # those that bmm_strided takes in batch_first, too
    *("1,192,48,2", "1,768,192,2", "1,64,64,4", "2,128,128,4", "16,48,48,4", "4,64,64,16"),
)
WAYS = {"cuda": ("launched", "graph"), "cpu": ("launched",)}
IN_A_GRAPH = 20
"""So many products."""


def seconds_of_replay(graph: torch.cuda.CUDAGraph, protocol: Protocol) -> float:
    """The median seconds of one of the products in a graph."""
    return seconds_of_run(graph.replay, "cuda", protocol) / IN_A_GRAPH


def measurements(
    products: dict[str, Callable[[], object]], how: str, device_type: str, protocol: Protocol
) -> dict[str, Callable[[], float]]:
    """What gives the seconds of each product, launched or from a graph; a graph is captured once for all rounds."""
    if how == "launched":
        return {name: functools.partial(seconds_of_run, run, device_type, protocol) for name, run in products.items()}
    return {
        name: functools.partial(seconds_of_replay, timer.captured(run, IN_A_GRAPH), protocol)
        for name, run in products.items()
    }


def times_of_problem(problem: Problem, how: str, protocol: Protocol, rounds: int) -> dict[str, list[float]]:
    """Seconds of each implementation that takes the problem, in each round."""
    with timer.strict_precision(), torch.no_grad():
        products = products_by_name(problem, IMPLEMENTATIONS, protocol.seed)
        for run in products.values():
            run()  # what libraries set up at a first call is no part of a graph
        return in_turns(measurements(products, how, problem.device_type, protocol), rounds)


def command_line() -> argparse.Namespace:
    """The arguments, and the protocol; ends the script where it cannot measure what they ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patterns", nargs="+", type=parsed_pattern, default=[Pattern.parse(p) for p in PATTERNS])
    parser.add_argument("--batches", nargs="+", type=positive_integer, default=[1, 8, 77, 512])
    parser.add_argument("--dtypes", nargs="+", default=["float16"], choices=list(DTYPES))
    parser.add_argument("--layouts", nargs="+", default=LAYOUTS, choices=LAYOUTS)
    add_device(parser)
    parser.add_argument("--rounds", type=positive_integer, default=5)
    parser.add_argument("--max-seconds", type=positive_seconds, default=0.005, help="for each number of a round")
    arguments = parser.parse_args()
    arguments.protocol = Protocol(
        min_samples=2, max_samples=5, runs_per_sample=1000, max_seconds=arguments.max_seconds, rest_seconds=0.0
    )
    for dtype in arguments.dtypes:
        problem = Problem(arguments.patterns[0], 1, DTYPES[dtype], arguments.layouts[0], arguments.device)
        require(parser, problem)
    return arguments


def main() -> None:
    """Measures and writes CSV to the standard output, row by row."""
    arguments = command_line()
    writer = csv.writer(sys.stdout)
    times = [f"{name}_s" for name in IMPLEMENTATIONS]
    writer.writerow(["pattern", "batch_size", "dtype", "layout", "how", *times, "kernel_over_best"])
    ratios: dict[str, list[float]] = {}
    for dtype, layout, pattern, batch in itertools.product(
        arguments.dtypes, arguments.layouts, arguments.patterns, arguments.batches
    ):
        problem = Problem(pattern, batch, DTYPES[dtype], layout, arguments.device)
        for how in WAYS[arguments.device]:
            seconds = times_of_problem(problem, how, arguments.protocol, arguments.rounds)
            cells, ratio = times_and_ratio(seconds, IMPLEMENTATIONS)
            writer.writerow([pattern, batch, dtype, layout, how, *cells, f"{ratio:.4g}"])
            ratios.setdefault(f"{how}, {dtype}, {layout}", []).append(ratio)
        sys.stdout.flush()
    for group, of_group in ratios.items():
        sys.stderr.write(
            f"{group}: {statistics.median(of_group):.3f} of the time of the faster other one (median), "
            f"slower on {sum(ratio > 1 for ratio in of_group)} of {len(of_group)}\n"
        )


if __name__ == "__main__":
    main()
