"""The backward pass: gradients of x and of the weight through the kernel, and through bmm.

    python benchmarks/gradients.py --device cuda --dtype float16 > gradients.csv

The gradient of x is the kernel on the transposed factor; that of the weight is a sum over the batch, by batched
products for every implementation. `kernel_over_bmm` should stay below 1.
"""

from __future__ import annotations

import argparse
import csv
import sys

import torch
from side_by_side import add_device, require, seconds_of_run

import ksmm
from ksmm.cli_arguments import parsed_pattern, positive_integer, positive_seconds
from ksmm.measure import timer
from ksmm.measure.inputs import make_inputs
from ksmm.measure.protocol import Protocol
from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, LAYOUTS, Problem

PATTERNS = ("1,192,48,2", "4,64,64,16", "1,192,192,48", "6,64,64,1", "1,768,192,2", "2,768,768,4")


def seconds_of_gradient(problem: Problem, name: str, of: str, limit: Protocol) -> float:
    """The median time of one gradient, the forward pass done before.

    Args:
        problem: the product.
        name: of the implementation.
        of: "x" or "weight".
        limit: how long to measure.
    """
    inputs = make_inputs(problem, limit.seed)
    wanted = inputs.x if of == "x" else inputs.weight
    inputs.x.requires_grad_(), inputs.weight.requires_grad_()
    with timer.strict_precision():
        y = ksmm.ks_matmul(inputs.x, inputs.weight, problem.layout, name)
        direction = torch.randn_like(y)
        return seconds_of_run(
            lambda: torch.autograd.grad(y, wanted, direction, retain_graph=True), problem.device_type, limit
        )


def main() -> None:
    """Measures and writes CSV to the standard output, row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patterns", nargs="+", type=parsed_pattern, default=[Pattern.parse(p) for p in PATTERNS])
    parser.add_argument("--batch", type=positive_integer, default=25088)
    add_device(parser)
    parser.add_argument("--dtype", default="float16", choices=list(DTYPES))
    parser.add_argument("--max-seconds", type=positive_seconds, default=0.2, help="for each number")
    arguments = parser.parse_args()
    limit = Protocol(max_seconds=arguments.max_seconds)
    dtype = DTYPES[arguments.dtype]
    require(parser, Problem(arguments.patterns[0], arguments.batch, dtype, "batch_first", arguments.device))
    writer = csv.writer(sys.stdout)
    writer.writerow(["pattern", "batch_size", "dtype", "layout", "gradient", "kernel_s", "bmm_s", "kernel_over_bmm"])
    for pattern in arguments.patterns:
        for layout in LAYOUTS:
            for of in ("x", "weight"):
                problem = Problem(pattern, arguments.batch, dtype, layout, arguments.device)
                kernel, bmm = (seconds_of_gradient(problem, name, of, limit) for name in ("kernel", "bmm"))
                row = [pattern, arguments.batch, arguments.dtype, layout, of]
                writer.writerow([*row, *(f"{number:.4g}" for number in (kernel, bmm, kernel / bmm))])
                sys.stdout.flush()


if __name__ == "__main__":
    main()
