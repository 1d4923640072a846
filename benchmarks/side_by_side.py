"""What the benchmark scripts share: medians by the pipeline's own timer, turns, and the comparison of two products."""

from __future__ import annotations

import argparse
import csv
import functools
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence

import torch

from ksmm.cli_arguments import parsed_pattern, positive_integer, positive_seconds
from ksmm.implementations import Implementation, Packed, get_implementation
from ksmm.measure import timer
from ksmm.measure.inputs import make_inputs
from ksmm.measure.protocol import Protocol
from ksmm.measure.samples import median
from ksmm.pattern_lists import benchmark_patterns, stratified_sample
from ksmm.problem import DTYPES, LAYOUTS, Problem

COLUMNS = ["pattern", "batch_size", "dtype", "layout", "chosen", "time_s", "without_s", "over_without"]

Products = Callable[[Implementation, Packed, torch.Tensor], tuple[Callable[[], object], Callable[[], object]]]
"""Of the kernel, a packed weight and X: the product with what is looked at, and the one without."""


def seconds_of_run(run: Callable[[], object], device_type: str, protocol: Protocol) -> float:
    """The median time of one call, warmed up."""
    run()
    estimate = timer.estimate_seconds(run, protocol, device_type)
    return median(timer.time_product(run, protocol, device_type, estimate).samples_s)


def implementation_for(problem: Problem, name: str) -> Implementation:
    """The implementation of that name, ready to be used.

    Raises:
        ValueError: there is none, or it does not take the problem.
    """
    implementation = get_implementation(name)
    reason = implementation.supports(problem)
    if reason is not None:
        raise ValueError(f"{name} does not take {problem.pattern} in {problem.layout}: {reason}")
    return implementation


def seconds_of_product(problem: Problem, name: str, protocol: Protocol) -> float:
    """The median time of one product, from a CUDA graph where launching it would rule.

    Raises:
        ValueError: there is no implementation of that name, or it does not take the problem.
    """
    implementation = implementation_for(problem, name)
    inputs = make_inputs(problem, protocol.seed)
    packed = implementation.pack(inputs.weight, problem.layout)
    with timer.strict_precision(), torch.no_grad():
        return seconds_without_launch(lambda: implementation.matmul(packed, inputs.x), problem.device_type, protocol)


def seconds_without_launch(run: Callable[[], object], device_type: str, protocol: Protocol) -> float:
    """The median time of one call, from a CUDA graph where launching it would rule."""
    seconds = seconds_of_run(run, device_type, protocol)
    if device_type == "cuda" and seconds < timer.CUDA_GRAPH_BELOW_S:
        return median(timer.time_cuda_graph(run, protocol, seconds).samples_s)
    return seconds


def products_by_name(problem: Problem, names: Iterable[str], seed: int) -> dict[str, Callable[[], object]]:
    """A product by each of these implementations that takes the problem, its weights packed."""
    inputs = make_inputs(problem, seed)
    found = {}
    for name in names:
        implementation = get_implementation(name)
        if implementation.supports(problem) is None:
            packed = implementation.pack(inputs.weight, problem.layout)
            found[name] = functools.partial(implementation.matmul, packed, inputs.x)
    return found


def in_turns(measurements: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """The seconds that each measurement gave in each round.

    Every second round is in reverse, so that none always follows another.
    """
    times: dict[str, list[float]] = {name: [] for name in measurements}
    for round_ in range(rounds):
        for name in list(measurements)[:: -1 if round_ % 2 else 1]:
            times[name].append(measurements[name]())
    return times


def times_and_ratio(times: dict[str, list[float]], names: Sequence[str]) -> tuple[list[str], float]:
    """Cells with the median seconds of each name, empty where it has no times; the kernel's over the least other."""
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    ratio = medians["kernel"] / min(seconds for name, seconds in medians.items() if name != "kernel")
    return [f"{medians[name]:.4g}" if name in medians else "" for name in names], ratio


def add_device(parser: argparse.ArgumentParser, default: str = "cuda") -> None:
    """Adds the option --device: cpu, or cuda where there is one."""
    parser.add_argument("--device", type=_present, default=default, choices=["cpu", "cuda"])


def _present(device: str) -> str:
    if device == "cuda" and not torch.cuda.is_available():
        raise argparse.ArgumentTypeError("PyTorch sees no CUDA device here; measure on the CPU with --device cpu")
    return device


def require(parser: argparse.ArgumentParser, problem: Problem, name: str = "kernel") -> None:
    """Ends the script with the parser's error where the implementation does not take the problem."""
    try:
        implementation_for(problem, name)
    except ValueError as error:
        parser.error(str(error))


def seconds_with_and_without(
    problem: Problem, products: Products, protocol: Protocol, rounds: int
) -> tuple[str, float, float]:
    """The kernel's configuration, and the median seconds of its product with something and without, in turns."""
    kernel = implementation_for(problem, "kernel")
    inputs = make_inputs(problem, protocol.seed)
    packed = kernel.pack(inputs.weight, problem.layout)
    with timer.strict_precision(), torch.no_grad():
        both = products(kernel, packed, inputs.x)
        measured = [
            [seconds_without_launch(product, problem.device_type, protocol) for product in both] for _ in range(rounds)
        ]
        configuration = kernel.configuration_of(packed, inputs.x)
    return configuration, *(statistics.median(seconds) for seconds in zip(*measured, strict=True))


def compare(description: str | None, products: Products) -> None:
    """A script: measures two products on each pattern, and writes CSV to the standard output, row by row."""
    sample = stratified_sample(benchmark_patterns(), 124)
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--patterns", nargs="+", type=parsed_pattern, default=sample, help="(the 124 of the published runs)"
    )
    parser.add_argument("--batch", type=positive_integer, default=25088)
    add_device(parser)
    parser.add_argument("--dtype", default="float16", choices=list(DTYPES))
    parser.add_argument("--layouts", nargs="+", default=LAYOUTS, choices=LAYOUTS)
    parser.add_argument("--rounds", type=positive_integer, default=3)
    parser.add_argument("--max-seconds", type=positive_seconds, default=0.03, help="for each number")
    arguments = parser.parse_args()
    protocol = Protocol(max_seconds=arguments.max_seconds)
    dtype = DTYPES[arguments.dtype]
    require(parser, Problem(arguments.patterns[0], arguments.batch, dtype, arguments.layouts[0], arguments.device))
    writer = csv.writer(sys.stdout)
    writer.writerow(COLUMNS)
    for pattern in arguments.patterns:
        for layout in arguments.layouts:
            problem = Problem(pattern, arguments.batch, dtype, layout, arguments.device)
            configuration, with_it, without = seconds_with_and_without(problem, products, protocol, arguments.rounds)
            row = [pattern, arguments.batch, arguments.dtype, layout, configuration]
            writer.writerow([*row, *(f"{number:.4g}" for number in (with_it, without, with_it / without))])
            sys.stdout.flush()
