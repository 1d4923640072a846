"""What the kernel is to reach on an H200 against what was measured, by dtype and layout (not in the paper).

By hand: python figures/table_targets.py --table results/<device>/time.csv --output FOLDER
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import ratios
import sheets
from script import conditions, main, sentences

NAME = Path(__file__).stem
TITLE = "Table of targets (not in the paper): what the kernel is to reach, and what was measured"


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
    def speedup_rivals(self) -> tuple[str, ...]:
        """The rivals that the bar of the speed-up is of."""
        return (ratios.ADDED,) if self.layout == "batch_last" else ratios.EVERY_RIVAL


TARGETS = (
    *(
        target
        for dtype in ("float16", "bfloat16")
        for target in (
            Target(dtype, "kernel", "batch_first", 2.0, 3.0, 95),
            Target(dtype, "kernel", "batch_last", 1.2, 1.1, 90),
        )
    ),
    Target("float32", "kernel", "batch_first", 1.0, 2.5, 95),
    Target("float32", "kernel", "batch_last", 0.65, 1.9, 95),
    Target("float32", "kernel_strict", "batch_first", 1.5),
    Target("float32", "kernel_strict", "batch_last", 1.15),
)


def caption(table: pd.DataFrame) -> str:
    """What is listed, over which patterns, on which device."""
    rows = ratios.time_over_roofline(table)
    rows = rows[rows.implementation.isin({target.implementation for target in TARGETS})]
    return sentences(
        "Medians over patterns. time_over_roofline: see Figure 19; in float32 the limit is that of float32 "
        "multiply-adds, which kernel may beat on the matrix units, and kernel_strict may not.",
        f"speedup_over_fastest: time of the fastest of {ratios.listed(ratios.EVERY_RIVAL)} in the same layout and "
        "dtype over that of the line's implementation; its bar is for the fastest rival in batch_first, and for "
        "bmm_strided alone in batch_last.",
        "fastest_percent: where the implementation is faster than all of them, in per cent of the patterns that one of "
        "them has a time for; fastest_in_graphs: the same with the times of products replayed from a CUDA graph, where "
        "they were measured (short products), which do not wait for the host.",
        "The bars are set for an NVIDIA H200 and batch 25,088.",
        conditions(table, " and ".join(dict.fromkeys(rows.dtype)), rows.set_index(ratios.PROBLEM).index),
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
    seconds = ratios.times(table, target.dtype, target.layout)
    ours = (target.implementation,)
    against = {side: ratios.speedup(seconds, ours, side) for side in (ratios.EVERY_RIVAL, target.speedup_rivals)}
    fastest_percent = _fastest_percent(seconds, ours)
    in_graphs = ratios.times(table, target.dtype, target.layout, in_graphs=True)
    bars = (
        float(over_roofline.median()) <= target.over_roofline,
        target.speedup is None or float(against[target.speedup_rivals].median()) >= target.speedup,
        target.fastest_percent is None or fastest_percent >= target.fastest_percent,
    )
    return line | {
        "patterns": len(over_roofline),
        "time_over_roofline": _rounded(over_roofline.median()),
        "roofline_bar": f"≤ {target.over_roofline:g}",
        "roofline_reached": _yes(bars[0]),
        "speedup_over_fastest": _rounded(against[ratios.EVERY_RIVAL].median()),
        "speedup_over_bmm_strided": _over_strided(against, target),
        "speedup_bar": None if target.speedup is None else f"≥ {target.speedup:g}",
        "speedup_reached": None if target.speedup is None else _yes(bars[1]),
        "fastest_percent": round(fastest_percent, 1),
        "fastest_in_graphs": None if in_graphs.equals(seconds) else round(_fastest_percent(in_graphs, ours), 1),
        "fastest_bar": None if target.fastest_percent is None else f"≥ {target.fastest_percent:g}",
        "fastest_reached": None if target.fastest_percent is None else _yes(bars[2]),
        "reached": _yes(all(bars)),
        "note": None,
    }


def _why_missing(table: pd.DataFrame, target: Target) -> str | None:
    reason = ratios.why_missing(table, target.dtype, (target.implementation,), layouts=[target.layout])
    if reason is None and _over_roofline(table, target).empty:
        return "the table has no roofline: the ceilings of the device were not measured"
    return reason


def _over_roofline(table: pd.DataFrame, target: Target) -> pd.Series:
    rows = ratios.time_over_roofline(table)
    keys = ("dtype", "layout", "implementation")
    return rows[(rows[list(keys)] == [getattr(target, key) for key in keys]).all(axis=1)].over_roofline


def _fastest_percent(seconds: pd.DataFrame, ours: tuple[str, ...]) -> float:
    contests = ratios.patterns_of(seconds, ratios.EVERY_RIVAL)
    faster = int((ratios.speedup(seconds, ours, ratios.EVERY_RIVAL) > 1).sum())
    return 100 * faster / contests if contests else float("nan")


def _over_strided(against: dict[tuple[str, ...], pd.Series], target: Target) -> float | None:
    return _rounded(against[target.speedup_rivals].median()) if target.layout == "batch_last" else None


def _rounded(value: float) -> float:
    return round(float(value), 3)


def _yes(reached: bool) -> str:
    return "yes" if reached else "no"


if __name__ == "__main__":
    main(__name__)
