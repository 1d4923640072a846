"""The aggregation that figures, tables and notebooks share: best layout, minimum over rivals, ratios, shares.

Every function starts from the table `time.csv` (one row per measurement) and looks at rows with status `ok` only:
a comparison is made over the patterns for which both sides have a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from ksmm.names import LAYOUTS
from ksmm.patterns import Pattern

SPECIALISED = ("kernel", "bmm", "einsum", "bsr")
"""The paper's implementations that know of the Kronecker structure."""

GENERIC = ("dense", "sparse")
"""The implementations that do not."""

RIVALS = ("bmm", "einsum", "bsr")
"""What the paper compares its kernel to in Figure 6."""

ADDED = "bmm_strided"
"""A specialised implementation that the paper does not have."""

KNOWN_RIVALS = (ADDED, *RIVALS, *GENERIC)
"""What the kernel is compared to where the paper's selection does not matter; `every_rival` adds what is new."""

OURS = ("kernel", "kernel_strict", "auto")
"""The kernel, and what chooses it: no rival of its own."""

NOT_IN_PAPER_FIGURES = ("kernel_strict", "lazylinop")
"""A variant of the kernel, and the authors' package of later: no figure that repeats one of the paper's has them."""

PROBLEM = ["pattern", "batch_size"]
"""What two implementations must share to be compared, for one dtype."""


def times(
    table: pd.DataFrame, dtype: str, layout: str | None = None, part: str = "whole", *, in_graphs: bool = False
) -> pd.DataFrame:
    """Median seconds of one product, one row per (pattern, batch size), one column per implementation.

    Args:
        table: rows of time.csv.
        dtype: "float32", …
        layout: "batch_first", "batch_last", or None for the faster of the two, as in Tables 3 and 8.
        part: "whole", or "multiplication" (line 2 of Algorithm 1 alone).
        in_graphs: instead, where it was measured (short products), that of a product replayed from a CUDA graph, which
            does not wait for the host to launch it.
    """
    rows = table[(table.status == "ok") & (table.part == part) & (table.dtype == dtype)]
    if layout is not None:
        rows = rows[rows.layout == layout]
    if in_graphs:
        rows = rows.assign(median_s=rows.cuda_graph_median_s.fillna(rows.median_s))
    return rows.groupby([*PROBLEM, "implementation"], sort=False).median_s.min().unstack("implementation")


def present(seconds: pd.DataFrame, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the names that have a time for at least one pattern."""
    return tuple(name for name in names if name in seconds and seconds[name].notna().any())


def fastest(seconds: pd.DataFrame, names: Iterable[str]) -> pd.Series:
    """The smallest time among the names for each row; missing where none of them has one."""
    return seconds.reindex(columns=list(present(seconds, names))).min(axis=1)


def every_rival(table: pd.DataFrame) -> tuple[str, ...]:
    """All but the kernel that have a time in any dtype: the known ones in their order, then the others by name.

    Where none has one, the known ones, so that messages can say who they would be.
    """
    timed = set(table[(table.status == "ok") & (table.part == "whole")].implementation) - set(OURS)
    known = [name for name in KNOWN_RIVALS if name in timed]
    return (*known, *sorted(timed - set(known))) or KNOWN_RIVALS


def speedup(seconds: pd.DataFrame, ours: Sequence[str], rivals: Sequence[str]) -> pd.Series:
    """Time of the fastest of `rivals` over time of the fastest of `ours`; above 1, ours is faster.

    Rows where one of the sides has no time are left out.
    """
    return (fastest(seconds, rivals) / fastest(seconds, ours)).dropna()


def patterns_of(seconds: pd.DataFrame, names: Iterable[str]) -> int:
    """For how many rows one of the names has a time: what shares are taken of, where no time is a defeat."""
    return int(fastest(seconds, names).notna().sum())


def where_specialised_wins(seconds: pd.DataFrame) -> pd.DataFrame:
    """The rows where the best of SPECIALISED is faster than the best of GENERIC (Figures 6 and 13, appendix B.8).

    A row without any generic time stays: nothing generic could do it.
    """
    generic = fastest(seconds, GENERIC)
    return seconds[generic.isna() | (fastest(seconds, SPECIALISED) < generic)]


def rewritings(table: pd.DataFrame, dtype: str, layout: str) -> pd.DataFrame:
    """What bmm's rewriting of memory takes, rows as in `times` (appendix B.2).

    Returns:
        Columns whole_s (Δt, the time of the whole product), multiplication_s (Δt̃, that of line 2 of Algorithm 1
        alone), share = (Δt − Δt̃)/Δt and memory_ratio = (b+c)/(bc). Without rows if one of the times is missing.
    """
    parts = [times(table, dtype, layout, part).reindex(columns=["bmm"]).bmm for part in ("whole", "multiplication")]
    both = pd.concat(parts, axis=1, keys=["whole_s", "multiplication_s"]).dropna()
    both["share"] = (both.whole_s - both.multiplication_s) / both.whole_s
    both["memory_ratio"] = attribute(both.index, "memory_ratio")
    return both


def layout_ratios(table: pd.DataFrame, dtype: str) -> pd.DataFrame:
    """Time in batch_first over time in batch_last, rows as in `times`; above 1, batch_last is faster."""
    first, last = (times(table, dtype, layout) for layout in LAYOUTS)
    return (first / last).dropna(how="all", axis=1).dropna(how="all")


def time_over_roofline(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of whole products with a column `over_roofline`: median time over the least time the device allows."""
    rows = table[(table.status == "ok") & (table.part == "whole") & (table.roofline_s > 0)]
    return rows.assign(over_roofline=rows.median_s / rows.roofline_s)


@dataclass(frozen=True)
class Comparison:
    """What a row of Tables 3, 5 and 8 says of one implementation (or minimum) against another.

    Attributes:
        patterns: number of patterns that both sides have a time for.
        share_faster: fraction of them where ours is faster.
        median_when_faster: median of the factors above 1 (the paper's "median acceleration in such cases"); NaN if
            there are none.
        median: median of all factors.
    """

    patterns: int
    share_faster: float
    median_when_faster: float
    median: float


def compare(factors: pd.Series) -> Comparison:
    """Summarises what `speedup` returned.

    Raises:
        ValueError: there is nothing to compare.
    """
    if factors.empty:
        raise ValueError("no pattern has a time on both sides of the comparison; check with `missing` first")
    faster = factors[factors > 1]
    return Comparison(len(factors), len(faster) / len(factors), float(faster.median()), float(factors.median()))


def attribute(index: pd.Index, name: str) -> list[float]:
    """An attribute of ksmm.Pattern (memory_ratio, density, …) for each row of what `times` returned."""
    return [getattr(Pattern.parse(text), name) for text in index.get_level_values("pattern")]


def matrix_sizes(index: pd.Index) -> list[int]:
    """M × N, the number of entries of the matrix, for each row of what `times` returned."""
    patterns = map(Pattern.parse, index.get_level_values("pattern"))
    return [pattern.rows * pattern.columns for pattern in patterns]


def why_missing(table: pd.DataFrame, dtype: str, *sides: Sequence[str], layouts: Sequence[str] = ()) -> str | None:
    """Why a comparison cannot be drawn, or None if it can.

    Args:
        table: rows of time.csv.
        dtype: the one that is compared.
        sides: each a list of implementations, one of which must have a time.
        layouts: each must have a time for each side; none given: any layout will do.
    """
    if not (table.dtype == dtype).any():
        return f"the table has no {dtype} measurements"
    for layout in layouts or [None]:
        seconds = times(table, dtype, layout)
        for side in sides:
            if not present(seconds, side):
                where = f"{dtype} {layout}" if layout else dtype
                reason = _first_reason(table, dtype, layout, side)
                return f"{listed(side)} {_have(side)} no time in {where} ({reason})"
        complete = pd.concat([fastest(seconds, side) for side in sides], axis=1).dropna()
        if complete.empty:
            return f"no pattern has a {dtype} time for each of {', '.join(label(side) for side in sides)}"
    return None


def absence(table: pd.DataFrame, dtype: str, names: Iterable[str]) -> str:
    """A sentence on those of the names that have no time at all in this dtype; empty if all have one."""
    seconds = times(table, dtype)
    absent = [name for name in names if name not in present(seconds, names)]
    return f"{listed(absent)} {_have(absent)} no time in {dtype} here." if absent else ""


def label(names: Sequence[str]) -> str:
    """The name if it is one, "min(bmm, einsum)" if they are several."""
    return names[0] if len(names) == 1 else f"min({', '.join(names)})"


def listed(names: Iterable[str]) -> str:
    """The names as in a sentence: "kernel, bmm and bsr"."""
    *others, last = names
    return " and ".join(filter(None, [", ".join(others), last]))


def _have(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _first_reason(table: pd.DataFrame, dtype: str, layout: str | None, names: Sequence[str]) -> str:
    rows = table[(table.dtype == dtype) & table.implementation.isin(names) & (table.status != "ok")]
    if layout is not None:
        rows = rows[rows.layout == layout]
    if rows.empty:
        return "not measured"
    row = rows.iloc[0]
    reason = f"{row.status}: {row.reason}" if row.reason else row.status
    return reason if len(names) == 1 else f"{row.implementation} {reason}"
