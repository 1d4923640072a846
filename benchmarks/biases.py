"""What a bias costs: the kernel with one, added on the way out, over the kernel without.

    python benchmarks/biases.py --dtype float16 > biases.csv

A row for each pattern and layout; `chosen` is the configuration, the same for both. Both are measured in turns, so many
rounds, and the times are their medians. Products below 200 µs are replayed from a CUDA graph. Let nothing else use the
processors meanwhile: longer products wait for the host when it is busy.
"""

from __future__ import annotations

import argparse
import csv
import functools
import statistics
import sys

import torch
from side_by_side import implementation_for, seconds_without_launch

from ksmm.measure import timer
from ksmm.measure.inputs import make_inputs
from ksmm.measure.protocol import Protocol
from ksmm.pattern_lists import benchmark_patterns, stratified_sample
from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, LAYOUTS, Problem

COLUMNS = ["pattern", "batch_size", "dtype", "layout", "chosen", "time_s", "without_s", "over_without"]


def seconds_with_and_without(problem: Problem, protocol: Protocol, rounds: int) -> tuple[str, float, float]:
    """The configuration, and the median seconds of a product with a bias and without."""
    kernel = implementation_for(problem, "kernel")
    inputs = make_inputs(problem, protocol.seed)
    packed = kernel.pack(inputs.weight, problem.layout)
    bias = torch.randn(problem.pattern.rows, device=problem.device_type).to(problem.dtype)
    with timer.strict_precision(), torch.no_grad():
        products = (
            functools.partial(kernel.matmul_bias, packed, inputs.x, bias),
            functools.partial(kernel.matmul, packed, inputs.x),
        )
        measured = [
            [seconds_without_launch(product, problem.device_type, protocol) for product in products]
            for _ in range(rounds)
        ]
        configuration = kernel.configuration_of(packed, inputs.x)
    with_bias, without = (statistics.median(seconds) for seconds in zip(*measured, strict=True))
    return configuration, with_bias, without


def main() -> None:
    """Measures and writes CSV to the standard output, row by row."""
    sample = stratified_sample(benchmark_patterns(), 124)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--patterns", nargs="+", type=Pattern.parse, default=sample, help="(the 124 of the published runs)"
    )
    parser.add_argument("--batch", type=int, default=25088)
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="float16", choices=list(DTYPES))
    parser.add_argument("--layouts", nargs="+", default=LAYOUTS, choices=LAYOUTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-seconds", type=float, default=0.03, help="for each number")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds is {arguments.rounds}; at least one is needed")
    protocol = Protocol(max_seconds=arguments.max_seconds)
    writer = csv.writer(sys.stdout)
    writer.writerow(COLUMNS)
    for pattern in arguments.patterns:
        for layout in arguments.layouts:
            problem = Problem(pattern, arguments.batch, DTYPES[arguments.dtype], layout, arguments.device)
            configuration, with_bias, without = seconds_with_and_without(problem, protocol, arguments.rounds)
            row = [pattern, arguments.batch, arguments.dtype, layout, configuration]
            writer.writerow([*row, *(f"{number:.4g}" for number in (with_bias, without, with_bias / without))])
            sys.stdout.flush()


if __name__ == "__main__":
    main()
