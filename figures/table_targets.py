"""What the kernel is to reach on an H200 against what was measured, by dtype and layout (not in the paper).

By hand: python figures/table_targets.py --table results/<device>/time.csv --output FOLDER
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import ratios
import sheets
from script import conditions, main, on_gpu, sentences

from ksmm.pattern_lists import BENCHMARK_BATCH_SIZE

NAME = Path(__file__).stem
TITLE = "Table of targets (not in the paper): what the kernel is to reach, and what was measured"

DEVICE, DEVICE_NAME = "nvidia-h200", "NVIDIA H200"
"""What the bars are of; at the batch size of the benchmark."""


@dataclass(frozen=True)
class Target:
    """One line: what one implementation is to reach in one layout and dtype.

    Attributes:
        implementation: "kernel", or "kernel_strict", which has a bar for the roofline alone.
        over_roofline: the most that the median of time over roofline may be.
        speedup: the least that the median speed-up may be; over bmm_strided in batch_last, else the fastest rival.
        fastest_percent: of how many per cent of the patterns it is the fastest at least.
    """

    dtype: str
    implementation: str
    layout: str
    over_roofline: float
    speedup: float | None = None
    fastest_percent: float | None = None

    @property
    def over_strided(self) -> bool:
        """Whether the bar of the speed-up is of bmm_strided alone."""
        return self.layout == "batch_last"


TARGETS = (
    Target("float32", "kernel", "batch_first", 1.0, 2.5, 95),
    Target("float32", "kernel", "batch_last", 0.65, 1.9, 95),
    Target("float32", "kernel_strict", "batch_first", 1.5),
    Target("float32", "kernel_strict", "batch_last", 1.15),
    *(
        target
        for dtype in ("float16", "bfloat16")
        for target in (
            Target(dtype, "kernel", "batch_first", 2.0, 3.0, 95),
            Target(dtype, "kernel", "batch_last", 1.2, 1.1, 90),
        )
    ),
)


def caption(table: pd.DataFrame) -> str:
    """What is listed, over which patterns, on which device."""
    rows = ratios.time_over_roofline(table)
    rows = rows[rows.implementation.isin({target.implementation for target in TARGETS})]
    return sentences(
        "Medians over patterns. time_over_roofline: see Figure 19.",
        "In float32 the limit is that of float32 multiply-adds, which kernel may beat on the matrix units, and "
        "kernel_strict may not."
        if on_gpu(table)
        else "",
        f"speedup_over_fastest: time of the fastest of {ratios.listed(ratios.every_rival(table))} in the same layout "
        "and dtype over that of the line's implementation; its bar is for the fastest rival in batch_first, and for "
        "bmm_strided alone in batch_last.",
        "fastest_percent: where the implementation is faster than all of them, in per cent of the patterns that one of "
        "them has a time for; fastest_in_graphs: the same with the times of products replayed from a CUDA graph, where "
        "they were measured (short products), which do not wait for the host.",
        f"The bars are set for an {DEVICE_NAME} and batch {BENCHMARK_BATCH_SIZE:,}; elsewhere there is no verdict, and "
        "none on what was not measured.",
        conditions(table, set(rows.dtype), rows.set_index(ratios.PROBLEM).index),
    )


def missing(table: pd.DataFrame) -> str | None:
    """Why the table cannot give any line, or None."""
    if table.empty:
        return "the table has no measurements"
    reasons = [_why_missing(table, target) for target in TARGETS]
    known = [reason for target, reason in zip(TARGETS, reasons, strict=True) if (table.dtype == target.dtype).any()]
    return (known or reasons)[0] if all(reasons) else None


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.csv and .md."""
    sheets.save(frame(table), NAME, output, caption(table))


def frame(table: pd.DataFrame) -> pd.DataFrame:
    """One line for each target; those that were not measured say why."""
    return pd.DataFrame([_line(table, target) for target in TARGETS]).dropna(axis=1, how="all")


def _line(table: pd.DataFrame, target: Target) -> dict[str, object]:
    line = {"dtype": target.dtype, "implementation": target.implementation, "layout": target.layout}
    reason = _why_missing(table, target)
    if reason is not None:
        return line | {"patterns": 0, "note": reason}
    over_roofline = _over_roofline(table, target)
    ours, rivals = (target.implementation,), ratios.every_rival(table)
    seconds = ratios.times(table, target.dtype, target.layout)
    in_graphs = ratios.times(table, target.dtype, target.layout, in_graphs=True)
    over_fastest = float(ratios.speedup(seconds, ours, rivals).median())
    over_strided = float(ratios.speedup(seconds, ours, (ratios.ADDED,)).median()) if target.over_strided else None
    fastest_percent = _fastest_percent(seconds, ours, rivals)
    results = {
        "roofline": (-float(over_roofline.median()), -target.over_roofline),
        "speedup": (over_strided if target.over_strided else over_fastest, target.speedup),
        "fastest": (fastest_percent, target.fastest_percent),
    }
    judged = _judged(table)
    verdicts = {name: _verdict(*pair) if judged else None for name, pair in results.items() if pair[1] is not None}
    return line | {
        "patterns": len(over_roofline),
        "time_over_roofline": round(float(over_roofline.median()), 3),
        "roofline_bar": f"≤ {target.over_roofline:g}",
        "roofline_reached": verdicts.get("roofline"),
        "speedup_over_fastest": round(over_fastest, 3),
        "speedup_over_bmm_strided": None if over_strided is None else round(over_strided, 3),
        "speedup_bar": None if target.speedup is None else f"≥ {target.speedup:g}",
        "speedup_reached": verdicts.get("speedup"),
        "fastest_percent": round(fastest_percent, 1),
        "fastest_in_graphs": None if in_graphs.equals(seconds) else round(_fastest_percent(in_graphs, ours, rivals), 1),
        "fastest_bar": None if target.fastest_percent is None else f"≥ {target.fastest_percent:g}",
        "fastest_reached": verdicts.get("fastest"),
        "reached": _all_reached(verdicts.values()),
        "note": _note(table, target),
    }


def _judged(table: pd.DataFrame) -> bool:
    return bool(((table.device == DEVICE) & (table.batch_size == BENCHMARK_BATCH_SIZE)).all())


def _verdict(value: float, bar: float) -> str | None:
    # What was never measured is neither reached nor missed.
    if math.isnan(value):
        return None
    return "yes" if value >= bar else "no"


def _all_reached(verdicts: Collection[str | None]) -> str | None:
    # One bar that is missed decides; else one without a verdict leaves it open.
    return "no" if "no" in verdicts else None if None in verdicts else "yes"


def _note(table: pd.DataFrame, target: Target) -> str | None:
    if not _judged(table):
        return f"no verdict: the bars are those of an {DEVICE_NAME} at batch {BENCHMARK_BATCH_SIZE:,}"
    if target.speedup is None:
        return None
    rivals = (ratios.ADDED,) if target.over_strided else ratios.every_rival(table)
    return ratios.why_missing(table, target.dtype, (target.implementation,), rivals, layouts=[target.layout])


def _why_missing(table: pd.DataFrame, target: Target) -> str | None:
    reason = ratios.why_missing(table, target.dtype, (target.implementation,), layouts=[target.layout])
    if reason is None and _over_roofline(table, target).empty:
        return "the table has no roofline: the ceilings of the device were not measured"
    return reason


def _over_roofline(table: pd.DataFrame, target: Target) -> pd.Series:
    rows = ratios.time_over_roofline(table)
    keys = ("dtype", "layout", "implementation")
    return rows[(rows[list(keys)] == [getattr(target, key) for key in keys]).all(axis=1)].over_roofline


def _fastest_percent(seconds: pd.DataFrame, ours: tuple[str, ...], rivals: tuple[str, ...]) -> float:
    contests = ratios.patterns_of(seconds, rivals)
    faster = int((ratios.speedup(seconds, ours, rivals) > 1).sum())
    return 100 * faster / contests if contests else float("nan")


if __name__ == "__main__":
    main(__name__)
