"""Every configuration of the kernel on a handful of rows, such as the tokens that a language model decodes.

    python benchmarks/few_rows.py --dtype float32 > few_rows.csv
    python benchmarks/few_rows.py --patterns 1,48,48,2 1,64,64,3 --batches 77 1024 25088    # of any number, too
    python benchmarks/few_rows.py --patterns 8,256,256,16 --layout batch_last --batches 25088 --rounds 5 \\
        --configurations "gemm streamed 256" "gemm streamed 128"    # at the power limit, where turns are fair
    python benchmarks/few_rows.py --patterns 6,96,96,16 --layout batch_last --batches 25088 --x others

A row for each factor, batch size and configuration, `chosen` for the cost model's choice. The times are of products
replayed from a CUDA graph, which follow each other, below 0.2 ms, and of launches above; the weights come from the L2
cache. A CPU has one row for each factor and batch size, and no configurations.

Products that follow each other have the same X, as in the pipeline, of which the L2 cache may still hold a part; with
--x others four in turns, each with a Y of its own, and with --x chain each what the product before wrote.
"""

from __future__ import annotations

import argparse
import csv
import functools
import statistics
import sys
from collections.abc import Callable

import torch
from side_by_side import add_device, implementation_for, in_turns, require, seconds_without_launch

from ksmm.cli_arguments import parsed_pattern, positive_integer, positive_seconds
from ksmm.measure import timer
from ksmm.measure.inputs import make_inputs
from ksmm.measure.protocol import Protocol
from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, LAYOUTS, Problem

Multiply = Callable[[torch.Tensor], torch.Tensor]
IN_A_ROW = 4
"""So many X in turns, or products of a chain, are timed together."""

PATTERNS = ("8,128,128,1", "1,128,128,8", "1,512,128,8", "8,128,512,1", "8,512,512,1", "1,512,512,8", "12,32,32,1")


def one_after_another(multiply: Multiply, x: torch.Tensor, following: str) -> tuple[Callable[[], object], int]:
    """What is timed, and of how many products it is: one, or some whose X are other ones, or each the Y before."""
    if following == "same":
        return functools.partial(multiply, x), 1
    if following == "others":
        all_x = [x, *(x.clone() for _ in range(IN_A_ROW - 1))]
        return lambda: [multiply(of) for of in all_x], IN_A_ROW  # a list, so that no Y takes another's place
    return lambda: functools.reduce(lambda of, _: multiply(of), range(IN_A_ROW), x), IN_A_ROW


def seconds_of_each(run: Callable[[], object], count: int, device: str, protocol: Protocol) -> float:
    """The median seconds of one of the products that a call makes."""
    return seconds_without_launch(run, device, protocol) / count


def command_line() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """The parser, which says what is wrong, and the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patterns", nargs="+", type=parsed_pattern, default=[Pattern.parse(p) for p in PATTERNS])
    parser.add_argument("--batches", nargs="+", type=positive_integer, default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--dtype", default="float16", choices=list(DTYPES))
    parser.add_argument("--layout", default="batch_first", choices=LAYOUTS)
    add_device(parser)
    parser.add_argument("--badly-scaled", action="store_true", help="weights in float32 that are 10^±15 apart")
    parser.add_argument("--max-seconds", type=positive_seconds, default=0.05, help="for each number")
    parser.add_argument(
        "--rounds", type=positive_integer, default=1, help="of all configurations in turns; the time is the median"
    )
    parser.add_argument("--x", default="same", choices=["same", "others", "chain"], help="of products in a row")
    parser.add_argument("--configurations", nargs="+", help="these alone, by name")
    arguments = parser.parse_args()
    if arguments.badly_scaled and arguments.dtype != "float32":
        parser.error(f"--badly-scaled is for --dtype float32, not {arguments.dtype}, which has no such numbers")
    for pattern in arguments.patterns:
        if arguments.x == "chain" and pattern.b != pattern.c:
            parser.error(f"--x chain is for b = c, not {pattern}: its Y is no X of its own")
    require(parser, Problem(arguments.patterns[0], 1, DTYPES[arguments.dtype], arguments.layout, arguments.device))
    return parser, arguments


def main() -> None:
    """Measures and writes CSV to the standard output, problem by problem."""
    parser, arguments = command_line()
    untaken = set(arguments.configurations or ())
    protocol = Protocol(max_seconds=arguments.max_seconds)
    writer = csv.writer(sys.stdout)
    writer.writerow(["pattern", "batch_size", "dtype", "layout", "configuration", "chosen", "time_s"])
    for pattern in arguments.patterns:
        for batch in arguments.batches:
            problem = Problem(pattern, batch, DTYPES[arguments.dtype], arguments.layout, arguments.device)
            kernel = implementation_for(problem, "kernel")
            inputs = make_inputs(problem, protocol.seed)
            if arguments.badly_scaled:
                inputs.weight.mul_(10 ** torch.empty_like(inputs.weight).uniform_(-15, 15))
            with timer.strict_precision(), torch.no_grad():
                configurations = kernel.configurations(kernel.pack(inputs.weight, problem.layout), inputs.x) or {"": -1}
                chosen = next(iter(configurations))
                measurements = {}
                for name, number in configurations.items():
                    if arguments.configurations is None or name in arguments.configurations:
                        # anew for each, since what configurations make of a weight is kept of a few alone
                        packed = kernel.pack(inputs.weight, problem.layout)
                        multiply = functools.partial(kernel.matmul_in, number, packed)
                        run, count = one_after_another(multiply, inputs.x, arguments.x)
                        measurements[name] = functools.partial(seconds_of_each, run, count, arguments.device, protocol)
                untaken.difference_update(measurements)
                times = in_turns(measurements, arguments.rounds)
            for name, seconds in times.items():
                row = [pattern, batch, arguments.dtype, arguments.layout, name, name == chosen]
                writer.writerow([*row, f"{statistics.median(seconds):.4g}"])
            sys.stdout.flush()
    if untaken:
        parser.error(
            f"none of these problems has a configuration named {', '.join(sorted(untaken))}; without "
            "--configurations all are listed"
        )


if __name__ == "__main__":
    main()
