"""The command line.

python -m ksmm time 1,192,48,2 --layout batch_last --dtype float32 --batch 25088
python -m ksmm info
python -m ksmm build [--record FILE]

Exit status: 0; 1 if something was wrong or failed, or the kernel could not be built; 2 for bad input, with one line
that says what to do; 130 if interrupted.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ksmm import build
from ksmm.implementations import get_implementation, implementations
from ksmm.info import info_text
from ksmm.measure.bench import Bench, PoisonedDeviceError
from ksmm.measure.ceilings import quick_ceilings
from ksmm.measure.job import summary
from ksmm.measure.lock import DeviceAbsentError, cuda_present, device_lock
from ksmm.measure.measurement import Measurement
from ksmm.measure.protocol import Protocol
from ksmm.pattern_lists import BENCHMARK_BATCH_SIZE
from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, LAYOUTS, Problem, check_layout, dtype_name, parse_dtype
from ksmm.time_report import time_report
from ksmm.toolchain import BuildError

logger = logging.getLogger(__name__)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        arguments: without the program's name; by default those of this process.

    Returns:
        The exit status.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    parsed = _parser().parse_args(arguments)
    try:
        return parsed.command(parsed)
    except (_BadInputError, DeviceAbsentError, OSError) as error:
        sys.stderr.write(f"python -m ksmm: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130


class _BadInputError(ValueError):
    """Something on the command line."""


def _parser() -> argparse.ArgumentParser:
    description, examples = (__doc__ or "").split("\n\n", 1)
    parser = _Parser(
        prog="python -m ksmm",
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    timing = commands.add_parser("time", help="time every implementation on one problem")
    timing.set_defaults(command=_time)
    timing.add_argument("pattern", help="a,b,c,d")
    timing.add_argument("--layout", default="batch_first", help=f"one of {', '.join(LAYOUTS)} (%(default)s)")
    timing.add_argument("--dtype", default="float32", help=f"one of {', '.join(DTYPES)} (%(default)s)")
    timing.add_argument("--batch", type=int, default=BENCHMARK_BATCH_SIZE, help="batch size (%(default)s)")
    timing.add_argument("--implementations", default="", help="names separated by commas (all of them)")
    timing.add_argument("--max-seconds", type=float, default=5.0, help="cap for timing one number (%(default)s)")
    info = commands.add_parser("info", help="print the device, the versions and what is available")
    info.set_defaults(command=_info)
    for command in (timing, info):
        command.add_argument("--device", default="auto", help="cpu, cuda, or auto: cuda if there is one (%(default)s)")
    building = commands.add_parser("build", help="build the kernel library")
    building.set_defaults(command=_build)
    building.add_argument("--record", type=Path, help="JSON file to write what was built to")
    return parser


def _time(arguments: argparse.Namespace) -> int:
    device_type = _device_type(arguments.device)
    try:
        problem = Problem(
            Pattern.parse(arguments.pattern),
            arguments.batch,
            parse_dtype(arguments.dtype),
            check_layout(arguments.layout),
            device_type,
        )
        names = [name.strip() for name in arguments.implementations.split(",") if name.strip()]
        chosen = [get_implementation(name) for name in names or implementations()]
        protocol = Protocol(max_seconds=arguments.max_seconds)
    except ValueError as error:
        raise _BadInputError(str(error)) from None
    if problem.batch_size < 1:
        raise _BadInputError(f"batch size is {problem.batch_size}; it must be at least 1 to be timed")
    with device_lock(device_type):
        ceilings = quick_ceilings(device_type, [dtype_name(problem.dtype)], seconds=0.5)
        bench = Bench(problem, protocol)
        measurements: list[Measurement] = []
        for number, implementation in enumerate(chosen, start=1):
            try:
                measurements.append(bench.measure(implementation))
            except PoisonedDeviceError as error:
                measurements.append(error.measurement)
                logger.error("CUDA cannot be used any more in this process; the rest is not measured")
                break
            logger.info("[%d/%d] %s: %s", number, len(chosen), implementation.name, summary(measurements[-1]))
        text = time_report(problem, measurements, ceilings)
    print(text)  # noqa: T201 - this is what the command is for
    return int(any(measurement.status in ("wrong", "failed") for measurement in measurements))


def _info(arguments: argparse.Namespace) -> int:
    print(info_text(_device_type(arguments.device)))  # noqa: T201 - this is what the command is for
    return 0


def _build(arguments: argparse.Namespace) -> int:
    try:
        return build.main(arguments.record)
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _device_type(name: str) -> str:
    if name not in ("cpu", "cuda", "auto"):
        raise _BadInputError(f"unknown device {name!r}; choose one of cpu, cuda, auto")
    present = cuda_present() if name != "cpu" else False
    if name == "cuda" and not present:
        raise _BadInputError(
            "a CUDA device was asked for, but PyTorch sees none; leave --device out, or use --device cpu"
        )
    return "cuda" if present else "cpu"
