"""Running Nsight Compute over multiply_once.py, and reading what it counted."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

METRICS = {
    "seconds": "gpu__time_duration.sum",
    "dram_bytes_read": "dram__bytes_read.sum",
    "dram_bytes_written": "dram__bytes_write.sum",
    "l1_sectors": "l1tex__t_sectors.sum",
    "l1_sectors_hit": "l1tex__t_sectors_lookup_hit.sum",
    "l2_sectors": "lts__t_sectors.sum",
    "l2_sectors_hit": "lts__t_sectors_lookup_hit.sum",
    "l2_sectors_read": "lts__t_sectors_op_read.sum",
    "l2_sectors_read_hit": "lts__t_sectors_op_read_lookup_hit.sum",
    "active_cycles": "sm__cycles_active.sum",
    "tensor_percent": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "shared_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "shared_bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
}
"""Column -> metric of Nsight Compute: sums, so that several launches add up and ratios are made later; see AVERAGED."""

AVERAGED = {"tensor_percent": "active_cycles"}
"""Column -> the column of its weights: what several launches have on average."""

UNITS = {"gpu__time_duration.sum": {"ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "s": 1.0, "second": 1.0}}

_RANGE = re.compile(r"ksmm task (\d+);")
_MOST_SECONDS = 3300


class CountingError(RuntimeError):
    """Nsight Compute could not count; the message says why."""


def profile(profiler: str, tasks: list[dict], folder: Path) -> tuple[str, list[str | None], str]:
    """Multiplies once for each task under Nsight Compute.

    Returns:
        Its CSV; for each task null or why it was not multiplied, fewer if the process ended; what was said last.
    """
    log, listed, outcomes = (folder / name for name in ("log", "tasks.json", "outcomes.json"))
    listed.write_text(json.dumps(tasks), encoding="utf-8")
    command = [profiler, "--clock-control", "none", "--profile-from-start", "off", "--nvtx", "--csv", "--page", "raw"]
    command += ["--print-units", "base", "--metrics", ",".join(METRICS.values()), "--log-file", str(log)]
    command += [sys.executable, str(Path(__file__).with_name("multiply_once.py"))]
    command += ["--tasks", str(listed), "--outcomes", str(outcomes)]
    environment = {**os.environ, "LC_ALL": "C"}  # numbers with a point, whatever the user's language
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_MOST_SECONDS, env=environment
        )
    except subprocess.TimeoutExpired:
        raise CountingError(f"ncu did not end in {_MOST_SECONDS} s; name fewer counters.patterns") from None
    text = log.read_text(encoding="utf-8") if log.exists() else ""
    reasons = json.loads(outcomes.read_text(encoding="utf-8")) if outcomes.exists() else []
    return text, reasons, _last_words(done.stderr, text)


def row_of(launches: list[dict], reason: str | None) -> dict:
    """The columns of one task: counts summed over its launches, or why there are none."""
    if reason is not None or not launches:
        return {"status": "skipped", "reason": reason or "ncu saw no launch"}
    kernels = "; ".join(dict.fromkeys(launch["kernel"] for launch in launches))
    sums = {column: sum(launch[column] for launch in launches) for column in METRICS}
    for column, weight in AVERAGED.items():
        weighted = sum(launch[column] * launch[weight] for launch in launches)
        sums[column] = weighted / sums[weight] if sums[weight] else 0.0
    shown = {column: f"{value:.9g}" for column, value in sums.items()}
    return {"status": "ok", "reason": "", "launches": len(launches), "kernels": kernels, **shown}


def read_launches(log: str) -> list[dict]:
    """The launches in Nsight Compute's raw CSV page: task number, kernel name and the columns of METRICS.

    Raises:
        CountingError: a metric or a unit is not what this script knows.
    """
    lines = [line for line in log.splitlines() if line.startswith('"')]
    if len(lines) < 2:
        return []
    header, units, *rows = csv.reader(lines)
    missing = [metric for metric in METRICS.values() if metric not in header]
    if missing:
        raise CountingError(f"ncu does not report {', '.join(missing)}; this device or version lacks it")
    unit_of = dict(zip(header, units, strict=True))
    launches = []
    for row in rows:
        found = _RANGE.search(" ".join(row))
        if found is not None:
            cells = dict(zip(header, row, strict=True))
            counts = {column: number_in(cells[metric], metric, unit_of[metric]) for column, metric in METRICS.items()}
            launches.append({"task": int(found[1]), "kernel": cells["Kernel Name"], **counts})
    return launches


def number_in(cell: str, metric: str, unit: str) -> float:
    """A count in its base unit, a time in seconds.

    Raises:
        CountingError: the unit is unknown, or the cell is no number.
    """
    factor = UNITS.get(metric, {}).get(unit, None if metric in UNITS else 1.0)
    try:
        number = float(cell.replace(",", ""))
    except ValueError:
        raise CountingError(f"ncu reports {cell!r} for {metric}, which is no number") from None
    if factor is None:
        raise CountingError(f"ncu reports {metric} in {unit!r}; known: {', '.join(UNITS[metric])}")
    return number * factor


def _last_words(*texts: str) -> str:
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["it said nothing"])[-1]
