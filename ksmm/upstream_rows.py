"""What the rows of the authors' CSV files mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksmm.measure import timer
from ksmm.measure.check import tolerance
from ksmm.measure.energy_counter import NVML_UNIT_J
from ksmm.measure.measurement import Measurement, utc_now
from ksmm.patterns import Pattern
from ksmm.problem import parse_dtype

if TYPE_CHECKING:
    import pandas

RUNS_IN_PAPER = 16
"""Appendix B.1: at least so many runs a measurement of energy."""

_COMMON = ("batch-size", "algo", "bs_position", "precision", "device_name", "median")
_COLUMNS = {"energy": (*_COMMON, "nruns"), "time": (*_COMMON, "iqr", "times")}
_LAYOUTS = {"bs_first": "batch_first", "bs_last": "batch_last"}
_DTYPES = {"fp32": "float32", "fp16": "float16"}
_RENAMED = {"monarch": "bmm"}


class UpstreamError(ValueError):
    """A file that is none of the authors'; the message names the line, the column and what is allowed."""


def study_of(file: Path, columns: list[str]) -> str:
    """Whether a file with these columns is of energies ("energy") or times ("time").

    Raises:
        UpstreamError: it is neither.
    """
    for study, needed in _COLUMNS.items():
        if set(needed) <= set(columns) and {"pattern", "patterns"} & set(columns):
            return study
    wanted = "; or ".join(f"for {study} pattern, {', '.join(needed)}" for study, needed in _COLUMNS.items())
    raise UpstreamError(f"{file} has the columns {', '.join(columns) or 'none'}; the authors' files have {wanted}")


def measurements_of(file: Path, frame: pandas.DataFrame, study: str) -> Iterator[tuple[str, Measurement]]:
    """The name of the device and the measurement of each row.

    Raises:
        UpstreamError: a row cannot be understood.
    """
    imported_at = utc_now()
    for line, row in enumerate(frame.to_dict("records"), start=2):
        try:
            measured = _energy(row) if study == "energy" else _time(row)
            yield _device_name(row), Measurement(**_problem(row), **measured, started_at=imported_at)
        except ValueError as error:
            raise UpstreamError(f"{file}, line {line}: {error}") from None


def _problem(row: dict[str, str]) -> dict[str, Any]:
    text = row.get("pattern") or row.get("patterns") or ""
    entries = re.findall(r"-?\d+", text)
    if len(entries) != 4:
        raise ValueError(f"column pattern is {text!r}; a single factor, four integers, can be imported")
    pattern = Pattern(*map(int, entries))
    dtype = _known(row, "precision", _DTYPES)
    return {
        "pattern": tuple(pattern),
        "batch_size": _batch_size(row),
        "dtype": dtype,
        "layout": _known(row, "bs_position", _LAYOUTS),
        "implementation": _RENAMED.get(row["algo"], row["algo"]),
        "part": "whole",
        "tolerance": tolerance(parse_dtype(dtype), pattern.c),
    }


def _energy(row: dict[str, str]) -> dict[str, Any]:
    runs = _number(row, "nruns")
    if runs < 1:
        raise ValueError(f"column nruns is {row['nruns']}; it must be at least 1")
    energy_j = _number(row, "median") * NVML_UNIT_J / runs
    if energy_j <= 0:
        return {"status": "failed", "reason": f"the counter reads {row['median']} mJ for {runs:g} runs"}
    entries = _list(row, "ecs")
    samples = tuple(entry * NVML_UNIT_J / runs for entry in entries if entry > 0)
    zeros = len(entries) - len(samples)  # of windows in which the counter did not advance
    energy = {
        "counter": "NVML, through pyJoules",
        "counter_period_s": None,
        "samples_j": samples,
        "runs": (runs,) * max(1, len(samples)),
        "energy_j": energy_j,
        "iqr_j": timer.interquartile_range(samples) if samples else None,
        "above_idle_j": None,
        "power_w": None,
        "idle_before_w": None,
        "idle_after_w": None,
        "quantisation": None,
    }
    return {
        "status": "ok",
        "runs_per_sample": int(runs),
        "protocol_met": runs >= RUNS_IN_PAPER,
        "note": f"{zeros} of {len(entries)} samples are of 0 mJ or less, and left out" if zeros else "",
        "energy": energy,
    }


def _time(row: dict[str, str]) -> dict[str, Any]:
    median_s, iqr_s = _number(row, "median"), _number(row, "iqr")
    samples = _list(row, "times")
    if median_s <= 0 or any(sample <= 0 for sample in samples):
        return {"status": "failed", "reason": f"the median is {row['median']} s"}
    return {"status": "ok", "samples_s": samples, "runs_per_sample": 1, "median_s": median_s, "iqr_s": iqr_s}


def _known(row: dict[str, str], column: str, known: dict[str, str]) -> str:
    if row[column] not in known:
        raise ValueError(f"column {column} is {row[column]!r}; it must be one of {', '.join(known)}")
    return known[row[column]]


def _device_name(row: dict[str, str]) -> str:
    if not re.search(r"[^\W_]", row["device_name"]):
        raise ValueError(f"column device_name is {row['device_name']!r}; a name has a letter or a digit")
    return row["device_name"]


def _batch_size(row: dict[str, str]) -> int:
    size = _number(row, "batch-size")
    if size < 1 or size != int(size):
        raise ValueError(f"column batch-size is {row['batch-size']!r}; it must be a whole number, at least 1")
    return int(size)


def _number(row: dict[str, str], column: str) -> float:
    return _parsed(row[column], column)


def _list(row: dict[str, str], column: str) -> tuple[float, ...]:
    """The numbers of "[0.1, 0.2]"; none for an empty cell, or where there is no such column."""
    entries = row.get(column, "").strip().strip("[]").split(",")
    return tuple(_parsed(entry, column) for entry in entries if entry.strip())


def _parsed(text: str, column: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not -float("inf") < number < float("inf"):
        raise ValueError(f"column {column} is {text!r}, which is no number")
    return number
