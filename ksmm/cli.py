"""The command line.

python -m ksmm time 1,192,48,2 --layout batch_last --dtype float32 --batch 25088
python -m ksmm info
python -m ksmm tune 1,192,48,2 6,64,64,1 --batch 25088 --dtypes float16
python -m ksmm tune --sample 120 --max-seconds 1200
python -m ksmm merge-tuned ONE.json ANOTHER.json --output BOTH.json
python -m ksmm build [--record FILE]
python -m ksmm import-upstream FILE [--output DIR]
python -m ksmm resume

Exit status: 0; 1 if something was wrong or failed, or the kernel could not be built (for lack of a compiler, that is 0
with --record, as the file says so); 2 for bad input, with one line that says what to do; 130 if interrupted.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ksmm import build
from ksmm.cli_arguments import seconds
from ksmm.implementations import get_implementation, implementations
from ksmm.info import info_text
from ksmm.measure.bench import Bench, PoisonedDeviceError
from ksmm.measure.ceilings import quick_ceilings
from ksmm.measure.job import summary
from ksmm.measure.lock import DeviceAbsentError, cuda_present, device_lock
from ksmm.measure.measurement import Measurement
from ksmm.measure.protocol import Protocol
from ksmm.measure.provenance import device_slug
from ksmm.names import dtype_name
from ksmm.pattern_lists import BENCHMARK_BATCH_SIZE, benchmark_patterns, energy_patterns, stratified_sample
from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, LAYOUTS, Problem, check_layout, parse_dtype
from ksmm.time_report import time_report
from ksmm.toolchain import BuildError
from ksmm.tuning.contest import NothingToTuneError
from ksmm.tuning.entry import PRECISIONS
from ksmm.tuning.file import TuningError, read_tuning, write_tuning
from ksmm.tuning.knowledge import user_file
from ksmm.tuning.tasks import list_tasks
from ksmm.tuning.tuner import Outcome, tune
from ksmm.upstream import UpstreamError, import_upstream

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
    except (_BadInputError, DeviceAbsentError, NothingToTuneError, TuningError, UpstreamError, OSError) as error:
        message = " ".join(str(error).splitlines())  # those of other packages have several lines
        sys.stderr.write(f"python -m ksmm: {message}\n")
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
    tuning = commands.add_parser("tune", help="measure and remember which configurations of the kernel are fastest")
    tuning.set_defaults(command=_tune)
    _add_tuning_arguments(tuning)
    merging = commands.add_parser("merge-tuned", help="make one tuning file of several of one device")
    merging.set_defaults(command=_merge_tuned)
    merging.add_argument("files", nargs="+", type=Path, help="what later ones know wins")
    merging.add_argument("--output", type=Path, required=True, help="tuning file to write; may be one of them")
    for command in (timing, info, tuning):
        command.add_argument("--device", default="auto", help="cpu, cuda, or auto: cuda if there is one (%(default)s)")
    building = commands.add_parser("build", help="build the kernel library")
    building.set_defaults(command=_build)
    building.add_argument("--record", type=Path, help="JSON file to write what was built to")
    importing = commands.add_parser("import-upstream", help="turn a CSV file of the paper's authors into records")
    importing.set_defaults(command=_import_upstream)
    importing.add_argument("file", type=Path, help="energies or times as they published them")
    importing.add_argument("--output", type=Path, default=IMPORTED, help="folder to write to (%(default)s)")
    resuming = commands.add_parser("resume", help="go on with a run of the pipeline that died, with its arguments")
    resuming.set_defaults(command=_resume)
    resuming.add_argument("more", nargs="*", help="more arguments of Snakemake, after --")
    resuming.add_argument("--directory", type=Path, default=Path(), help="the run's working directory (%(default)s)")
    resuming.add_argument("--elsewhere", action="store_true", help="the run was on another host, and is dead there")
    return parser


def _add_tuning_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("patterns", nargs="*", help="a,b,c,d ... (a sample of --list)")
    parser.add_argument("--list", choices=sorted(_LISTS), default="benchmark", help="what is sampled (%(default)s)")
    parser.add_argument("--sample", type=int, default=60, help="how many patterns of it, evenly spread (%(default)s)")
    parser.add_argument("--batch", default=str(BENCHMARK_BATCH_SIZE), help="batch sizes, by commas (%(default)s)")
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="separated by commas (%(default)s)")
    parser.add_argument("--layouts", default=",".join(LAYOUTS), help="separated by commas (%(default)s)")
    parser.add_argument("--precisions", default=",".join(PRECISIONS), help="of float32 on CUDA (%(default)s)")
    parser.add_argument("--max-seconds", type=seconds, default=3600.0, help="begin no problem later (%(default)s)")
    parser.add_argument("--again", action="store_true", help="measure again what was measured")
    parser.add_argument("--output", type=Path, help="tuning file (KSMM_TUNING_FILE, or one in the user's cache)")


IMPORTED = Path("results/imported")
"""Where the pipeline looks for records of others: the config key energy.imported."""

_LISTS = {"benchmark": benchmark_patterns, "energy": energy_patterns}


def _print(text: str) -> None:
    """Prints what a command is for; what the stream has no characters for is written as it can be."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.replace("µ", "u").encode(encoding, "backslashreplace").decode(encoding)
    print(text)  # noqa: T201 - see above


def _time(arguments: argparse.Namespace) -> int:
    device_type = _device_type(arguments.device)
    if arguments.batch < 1:
        raise _BadInputError(f"batch size is {arguments.batch}; it must be at least 1 to be timed")
    try:
        problem = Problem(
            Pattern.parse(arguments.pattern),
            arguments.batch,
            parse_dtype(arguments.dtype),
            check_layout(arguments.layout),
            device_type,
        )
        chosen = [get_implementation(name) for name in _listed(arguments.implementations) or implementations()]
        protocol = Protocol(max_seconds=arguments.max_seconds)
    except ValueError as error:
        raise _BadInputError(str(error)) from None
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
    _print(text)
    return int(any(measurement.status in ("wrong", "failed") for measurement in measurements))


def _tune(arguments: argparse.Namespace) -> int:
    device_type = _device_type(arguments.device)
    try:
        given = [Pattern.parse(text) for text in arguments.patterns]
        tasks = list_tasks(
            given or stratified_sample(_LISTS[arguments.list](), arguments.sample),
            device_type,
            _batch_sizes(arguments.batch),
            _listed(arguments.dtypes),
            _listed(arguments.layouts),
            _listed(arguments.precisions),
        )
    except ValueError as error:
        raise _BadInputError(str(error)) from None
    file = arguments.output or user_file(device_slug(device_type))
    if file is None:
        raise _BadInputError("there is no home directory to keep the times in; name a file with --output")
    try:
        outcome = tune(tasks, file, max_seconds=arguments.max_seconds, again=arguments.again)
    except PoisonedDeviceError as error:
        logger.error("%s; CUDA cannot be used any more in this process: run the same again, it goes on after it", error)
        return 1
    _print(_tuned_text(outcome, file))
    return int(outcome.given_up > 0)


def _merge_tuned(arguments: argparse.Namespace) -> int:
    merged, *others = map(read_tuning, arguments.files)
    for other in others:
        merged.include(other)
    write_tuning(arguments.output, merged)
    _print(f"{len(merged.entries)} problems: {arguments.output}")
    return 0


def _tuned_text(outcome: Outcome, file: Path) -> str:
    parts = [f"{outcome.measured} problems measured", f"{outcome.known} known before"]
    parts += [f"{outcome.given_up} given up"] * (outcome.given_up > 0)
    parts += [f"{outcome.left} left for lack of time"] * (outcome.left > 0)
    lines = [f"{', '.join(parts)}: {file}"]
    if outcome.ratios:
        median = statistics.median(outcome.ratios)
        lines.append(f"the cost model's choice takes {median:.3g} times as long as the fastest (median)")
    return "\n".join(lines)


def _listed(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _batch_sizes(text: str) -> list[int]:
    try:
        return [int(size) for size in _listed(text)]
    except ValueError:
        raise _BadInputError(f"--batch is {text!r}; write integers separated by commas, such as 1,196,25088") from None


def _info(arguments: argparse.Namespace) -> int:
    _print(info_text(_device_type(arguments.device)))
    return 0


def _build(arguments: argparse.Namespace) -> int:
    try:
        return build.main(arguments.record)
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _import_upstream(arguments: argparse.Namespace) -> int:
    for done in import_upstream(arguments.file, arguments.output):
        text = f"{done.measurements} measurements ({done.study}) of {done.patterns} patterns on {done.device}"
        _print(f"{text}: {done.records} records in {done.folder}")
    return 0


def _resume(arguments: argparse.Namespace) -> int:
    from ksmm.resume import ResumeError, resume  # needs what the workflow needs
    from ksmm.slurm_queue import QueueError

    try:
        resume(arguments.directory.resolve(), arguments.more, elsewhere=arguments.elsewhere)
    except (ResumeError, QueueError) as error:
        raise _BadInputError(str(error)) from None


def _device_type(name: str) -> str:
    if name not in ("cpu", "cuda", "auto"):
        raise _BadInputError(f"unknown device {name!r}; choose one of cpu, cuda, auto")
    present = cuda_present() if name != "cpu" else False
    if name == "cuda" and not present:
        raise _BadInputError(
            "a CUDA device was asked for, but PyTorch sees none; leave --device out, or use --device cpu"
        )
    return "cuda" if present else "cpu"
