"""Counts what the kernel does to memory and matrix units, with Nsight Compute: one CSV row for each of a few problems.

python workflow/scripts/count_kernel.py --patterns 1,128,128,2 16,64,64,16 --batch-size 25088 --dtypes float32 float16 \
    --layouts batch_first batch_last --implementations kernel kernel_strict --output counters.csv

Counts are sums over all launches of one product. Nsight Compute empties the caches before each launch and runs it
several times; clocks are left as they are. A problem without counts has a status and a reason: where `ncu` is missing,
or the counters may not be read, that is every problem. `commit` and `kernel_hash` are those of the records of times
("-dirty" where the sources differ from the commit), and `configuration` is what the kernel says that it takes.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import logging
import shutil
import tempfile
from pathlib import Path

import torch
from nsight_compute import METRICS, CountingError, profile, read_launches, row_of

import ksmm
from ksmm.cli_arguments import parsed_pattern, positive_integer
from ksmm.implementations import get_implementation
from ksmm.measure import provenance
from ksmm.measure.files import write_atomically
from ksmm.measure.inputs import make_inputs
from ksmm.measure.lock import DeviceAbsentError, device_lock
from ksmm.problem import DTYPES, Problem, parse_dtype

TASK_COLUMNS = ("pattern", "batch_size", "dtype", "layout", "implementation")
PROVENANCE_COLUMNS = ("device_name", "commit", "kernel_hash")
COUNTED_COLUMNS = ("configuration", "status", "reason", "launches", "kernels", "bytes_moved", *METRICS)
COLUMNS = (*PROVENANCE_COLUMNS, *TASK_COLUMNS, *COUNTED_COLUMNS)
PATTERNS = ("1,96,96,1", "1,128,128,2", "1,768,192,3", "1,1024,1024,4", "4,192,192,16", "16,64,64,16")
"""Of the 124 whose times are published: small and large ones, of one plane, a few, and 16."""


def main() -> None:
    """Command line of this script."""
    arguments = parse_arguments()
    tasks = [
        dict(zip(TASK_COLUMNS, (str(pattern), arguments.batch_size, dtype, layout, implementation), strict=True))
        for pattern, dtype, layout, implementation in itertools.product(
            arguments.patterns, arguments.dtypes, arguments.layouts, arguments.implementations
        )
    ]
    try:
        if shutil.which("ncu") is not None:
            provenance.check_device("cuda", arguments.device)
        device_name, rows = count(tasks)
    except (CountingError, DeviceAbsentError) as error:
        logging.warning("counters skipped: %s", error)
        device_name, rows = "", [{"status": "skipped", "reason": str(error)} for _ in tasks]
    known = {"device_name": device_name, "commit": commit(), "kernel_hash": provenance.kernel_hash()}
    known_of_tasks = [{**known, **task, "bytes_moved": problem_of(task).bytes_moved} for task in tasks]
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows([of_task | row for of_task, row in zip(known_of_tasks, rows, strict=True)])
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(arguments.output, text.getvalue())


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patterns", nargs="+", type=parsed_pattern, default=PATTERNS, help="a,b,c,d ...")
    parser.add_argument("--batch-size", type=positive_integer, required=True)
    parser.add_argument("--device", help="what the GPU must be, e.g. nvidia-h200; by default any is counted on")
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), required=True)
    parser.add_argument("--layouts", nargs="+", choices=ksmm.LAYOUTS, default=list(ksmm.LAYOUTS))
    parser.add_argument(
        "--implementations", nargs="+", choices=list(ksmm.implementations()), default=["kernel", "kernel_strict"]
    )
    parser.add_argument("--output", type=Path, required=True, help="CSV file to write")
    return parser.parse_args()


def commit() -> str:
    """The commit of the sources, "-dirty" behind it where they differ from it; empty where it is not known."""
    state = provenance.git_state()
    return "" if state is None else f"{state['commit']}{'-dirty' if state['dirty'] else ''}"


def problem_of(task: dict, device_type: str = "cuda") -> Problem:
    """What a task multiplies."""
    pattern = ksmm.Pattern.parse(task["pattern"])
    return Problem(pattern, task["batch_size"], parse_dtype(task["dtype"]), task["layout"], device_type)


def configuration_of(task: dict, device_type: str = "cuda") -> str:
    """The configuration that multiplied; empty where an implementation has only one way.

    Asked here, of the operands that multiply_once.py has: sizes, tuning file and cost model decide, the same for both.
    """
    problem, implementation = problem_of(task, device_type), get_implementation(task["implementation"])
    if implementation.supports(problem) is not None:
        return ""
    with torch.no_grad():
        inputs = make_inputs(problem, seed=0)
        return implementation.configuration_of(implementation.pack(inputs.weight, problem.layout), inputs.x)


def count(tasks: list[dict]) -> tuple[str, list[dict]]:
    """The device's name, and for each task its counts, or status and reason, as columns of the CSV.

    Raises:
        CountingError: Nsight Compute is missing or could not count at all.
        DeviceAbsentError: there is no GPU.
    """
    profiler = shutil.which("ncu")
    if profiler is None:
        raise CountingError("Nsight Compute's ncu is not on the PATH; it comes with the CUDA toolkit")
    with device_lock("cuda"), tempfile.TemporaryDirectory() as folder:
        log, outcomes, last_words = profile(profiler, tasks, Path(folder))
        launches = read_launches(log)
        if not launches and not any(outcomes):
            raise CountingError(f"ncu counted nothing: {last_words}")
        rows = []
        for number, task in enumerate(tasks):
            reason = outcomes[number] if number < len(outcomes) else f"the process ended: {last_words}"
            row = row_of([launch for launch in launches if launch["task"] == number], reason)
            rows.append(row | {"configuration": configuration_of(task) if row["status"] == "ok" else ""})
        return provenance.device_name("cuda"), rows


if __name__ == "__main__":
    main()
