"""Gradients of weights in batch_first: by one pass over X and the gradient of Y, and by copies of their planes.

    python benchmarks/gradient_parts.py --device cuda --dtype float16 > gradient_parts.csv
    python benchmarks/gradient_parts.py --device cuda --patterns 4,64,64,16 --batches 25088 --parts -1 0 1 8 16 32

A row for each factor, batch size and number of parts of the batch: -1 for what the cost model picks, 0 for copies. The
times are of launches replayed from a CUDA graph, where launching would rule.
"""

from __future__ import annotations

import argparse
import csv
import functools
import sys

import torch
from side_by_side import add_device, require, seconds_without_launch

from ksmm.cli_arguments import integer_from, parsed_pattern, positive_integer, positive_seconds
from ksmm.measure.inputs import make_inputs
from ksmm.measure.protocol import Protocol
from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, Problem

PATTERNS = ("1,192,48,2", "1,768,192,2", "3,128,128,4", "2,768,768,4", "1,192,192,8", "4,64,64,16", "1,64,64,64")


def main() -> None:
    """Measures and writes CSV to the standard output, row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patterns", nargs="+", type=parsed_pattern, default=[Pattern.parse(p) for p in PATTERNS])
    parser.add_argument("--batches", nargs="+", type=positive_integer, default=[512, 4096, 25088])
    parser.add_argument("--parts", nargs="+", type=integer_from(-1), default=[-1, 0])
    add_device(parser)
    parser.add_argument("--dtype", default="float16", choices=list(DTYPES))
    parser.add_argument("--max-seconds", type=positive_seconds, default=0.05, help="for each number")
    arguments = parser.parse_args()
    protocol = Protocol(max_seconds=arguments.max_seconds)
    writer = csv.writer(sys.stdout)
    writer.writerow(["pattern", "batch_size", "dtype", "parts", "time_s"])
    for pattern in arguments.patterns:
        for batch in arguments.batches:
            problem = Problem(pattern, batch, DTYPES[arguments.dtype], "batch_first", arguments.device)
            require(parser, problem)
            x = make_inputs(problem, protocol.seed).x
            y_gradient = torch.randn(problem.output_shape, device=x.device).to(x.dtype)
            for parts in arguments.parts:
                gradient = functools.partial(
                    torch.ops.ksmm.weight_gradient_first, x, y_gradient, pattern.a, pattern.d, parts
                )
                with torch.no_grad():
                    seconds = seconds_without_launch(gradient, arguments.device, protocol)
                writer.writerow([pattern, batch, arguments.dtype, parts, f"{seconds:.4g}"])
                sys.stdout.flush()


if __name__ == "__main__":
    main()
