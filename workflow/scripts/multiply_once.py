"""Multiplies once for each task, between marks that Nsight Compute understands, under which count_kernel.py runs it.

python workflow/scripts/multiply_once.py --tasks tasks.json --outcomes outcomes.json

tasks.json is a list of {"pattern", "batch_size", "dtype", "layout", "implementation"}; outcomes.json becomes a list, in
the same order, of null, or the reason why it was not multiplied. Task number 3 is multiplied in the NVTX range
"ksmm task 3;", and nothing else is profiled if the profiler waits for cudaProfilerStart.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from ksmm.implementations import get_implementation
from ksmm.measure.inputs import make_inputs
from ksmm.patterns import Pattern
from ksmm.problem import Problem, parse_dtype

WARM_UP_RUNS = 2


def main() -> None:
    """Command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, required=True, help="JSON: what to multiply")
    parser.add_argument("--outcomes", type=Path, required=True, help="JSON file to write: null or a reason for each")
    arguments = parser.parse_args()
    outcomes: list[str | None] = []
    for number, task in enumerate(json.loads(arguments.tasks.read_text(encoding="utf-8"))):
        outcomes.append(multiply(task, number))
        # a crash leaves the outcomes up to it
        arguments.outcomes.write_text(json.dumps(outcomes), encoding="utf-8")


def multiply(task: dict, number: int) -> str | None:
    """Multiplies by one factor under the profiler; returns why it did not, or None."""
    pattern, dtype = Pattern.parse(task["pattern"]), parse_dtype(task["dtype"])
    problem = Problem(pattern, task["batch_size"], dtype, task["layout"], "cuda")
    implementation = get_implementation(task["implementation"])
    reason = implementation.supports(problem)
    if reason is not None:
        return reason
    try:
        with torch.no_grad():
            inputs = make_inputs(problem, seed=0)
            packed = implementation.pack(inputs.weight, problem.layout)
            for _ in range(WARM_UP_RUNS):
                implementation.matmul(packed, inputs.x)
            _profiled(lambda: implementation.matmul(packed, inputs.x), f"ksmm task {number};")
    except torch.OutOfMemoryError as error:
        return f"out of memory: {str(error).splitlines()[0]}"
    return None


def _profiled(run, name: str) -> None:
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    torch.cuda.nvtx.range_push(name)
    run()
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()
    torch.cuda.profiler.stop()


if __name__ == "__main__":
    main()
