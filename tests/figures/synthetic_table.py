"""A table of measurements with invented times, as `ksmm.table` would write it, for the tests of figures and notebooks.

By hand: python tests/figures/synthetic_table.py --patterns 40 --dtypes float32 float16 --output time.csv
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ksmm.measure import timer
from ksmm.pattern_lists import benchmark_patterns, stratified_sample
from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, LAYOUTS, Problem
from ksmm.table import COLUMNS, write_table

BANDWIDTH = 4e12
RATES = {"float32": 5e13, "float16": 7e14, "bfloat16": 7e14}
PASSES = {"kernel": 1.1, "bmm_strided": 1.4, "bmm": 3.2, "einsum": 4.0, "bsr": 4.5, "sparse": 1.5, "dense": 1.0}
EFFICIENCY = {"kernel": 0.8, "bmm_strided": 0.8, "bmm": 0.85, "einsum": 0.6, "bsr": 0.5, "sparse": 0.1, "dense": 0.9}
LATER = ("kernel_strict", "lazylinop")
"""What is no implementation of the paper's figures: added by `with_later`."""


def synthetic_table(
    number: int = 40,
    dtypes: Sequence[str] = ("float32", "float16", "bfloat16"),
    batch_size: int = 25_088,
    device: str = "nvidia-h200",
    device_name: str = "NVIDIA H200",
    failures: bool = True,
    seed: int = 0,
) -> pd.DataFrame:
    """One row per measurement of all seven implementations in both layouts; some are skipped or failed."""
    generator = np.random.default_rng(seed)
    rows = []
    for pattern in stratified_sample(benchmark_patterns(), number):
        for dtype in dtypes:
            for layout in LAYOUTS:
                for implementation in PASSES:
                    for part in ("whole", "multiplication") if implementation == "bmm" else ("whole",):
                        rows.append(_row(generator, pattern, batch_size, dtype, layout, implementation, part, failures))
    table = pd.DataFrame(rows).assign(device=device, device_name=device_name, started_at="2025-01-02T03:04:05+00:00")
    numbers = [name for name, kind in COLUMNS.items() if kind == "number"]
    return table[list(COLUMNS)].astype(dict.fromkeys(numbers, "float64"))


def with_later(table: pd.DataFrame) -> pd.DataFrame:
    """The same measurements, and slower ones of kernel_strict in float32 and of lazylinop in batch_last."""
    kernel = table[table.implementation == "kernel"]
    parts = {"kernel_strict": kernel[kernel.dtype == "float32"], "lazylinop": kernel[kernel.layout == "batch_last"]}
    later = [rows.assign(implementation=name, median_s=1.5 * rows.median_s) for name, rows in parts.items()]
    return pd.concat([table, *later], ignore_index=True)


def _row(generator, pattern, batch_size, dtype, layout, implementation, part, failures) -> dict:
    problem = Problem(pattern, batch_size, DTYPES[dtype], layout)
    roofline = max(problem.bytes_moved / BANDWIDTH, problem.operations / RATES[dtype])
    status, reason = _status(pattern, dtype, layout, implementation, generator) if failures else ("ok", "")
    row = {
        "pattern": str(pattern),
        **{name: getattr(pattern, name) for name in "abcd"},
        "batch_size": batch_size,
        "dtype": dtype,
        "layout": layout,
        "implementation": implementation,
        "part": part,
        "status": status,
        "reason": reason,
        "bytes_moved": problem.bytes_moved,
        "operations": problem.operations,
        "roofline_s": roofline,
        "tolerance": 1e-5 if dtype == "float32" else 1e-2,
        "kernel_hash": "0" * 16,
    }
    measured = ("median_s", "iqr_s", "cuda_graph_median_s", "relative_error")
    if status != "ok":
        return row | dict.fromkeys(measured) | {"samples": 0, "runs_per_sample": 0, "protocol_met": ""}
    seconds = _seconds(pattern, problem, dtype, layout, implementation, part) * generator.lognormal(0, 0.15)
    replayed = seconds * 0.9 if seconds < timer.CUDA_GRAPH_BELOW_S else None
    values = (seconds, seconds * 0.005, replayed, row["tolerance"] / 20)
    return (
        row | dict(zip(measured, values, strict=True)) | {"samples": 10, "runs_per_sample": 10, "protocol_met": "yes"}
    )


def _seconds(pattern: Pattern, problem: Problem, dtype: str, layout: str, implementation: str, part: str) -> float:
    dense = 1 / pattern.density if implementation == "dense" else 1
    passes = 1.0 if part == "multiplication" else PASSES[implementation]
    if layout == "batch_first" and implementation in ("kernel", "sparse"):
        passes *= 1.6
    memory = passes * problem.bytes_moved / BANDWIDTH
    return 5e-6 + memory + dense * problem.operations / RATES[dtype] / EFFICIENCY[implementation]


def _status(pattern: Pattern, dtype: str, layout: str, implementation: str, generator) -> tuple[str, str]:
    if implementation == "bmm_strided" and layout == "batch_first" and pattern.d > 1:
        return "skipped", f"batch_first with d = {pattern.d}: X[:, i, :, j] has no contiguous dimension"
    if implementation == "sparse" and dtype == "bfloat16":
        return "skipped", "PyTorch: addmm_sparse_cuda not implemented for BFloat16"
    if implementation == "dense" and pattern.rows * pattern.columns > 1.5e9:
        return "out_of_memory", f"the matrix of {pattern.rows} × {pattern.columns} does not fit"
    if implementation in ("sparse", "einsum") and generator.random() < 0.05:
        return "too_slow", "one product took 2.3 s, more than max_seconds_per_run = 2"
    if implementation == "bsr" and generator.random() < 0.03:
        return "wrong", "relative error 0.3 against float64, tolerance 1e-05"
    return "ok", ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patterns", type=int, default=40)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "float16"])
    parser.add_argument("--batch", type=int, default=25_088)
    parser.add_argument("--device", default="nvidia-h200")
    parser.add_argument("--device-name", default="NVIDIA H200")
    parser.add_argument("--output", type=Path, required=True)
    a = parser.parse_args()
    table = synthetic_table(a.patterns, a.dtypes, a.batch, a.device, a.device_name)
    write_table(table, a.output)


if __name__ == "__main__":
    main()
