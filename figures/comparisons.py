"""What Tables 3, 5 and 8 share: how often one side is faster than another, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import ratios
import sheets
from accounts import in_layouts, left_out
from script import conditions, sentences


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
        ours: implementations; the fastest of them is compared.
        rivals: as ours.
        layout: None for the faster of the two layouts of each implementation.
        paper: what the paper reports on its A100, as far as its text says so.
    """

    ours: Sequence[str]
    rivals: Sequence[str]
    layout: str | None = None
    paper: str = ""

    @property
    def added(self) -> bool:
        """Whether the paper does not have this row."""
        return ratios.ADDED in (*self.ours, *self.rivals)


@dataclass(frozen=True)
class Comparisons:
    """A table of such rows.

    Attributes:
        name: stem of the files.
        rows: those with an implementation that the paper lacks are left out where it was not measured.
        dtype: "float32", "float16" or "bfloat16".
        paper_dtype: the one that the paper has this table in; in another, nothing of it is the paper's.
    """

    name: str
    rows: tuple[Row, ...]
    dtype: str = "float32"
    paper_dtype: str = "float32"

    @property
    def of_the_paper(self) -> bool:
        """Whether the paper has this table in this dtype."""
        return self.dtype == self.paper_dtype

    def missing(self, table: pd.DataFrame) -> str | None:
        """Why the table cannot give any row, or None."""
        reasons = [self._why_missing(table, row) for row in self._rows(table)]
        return reasons[0] if all(reasons) else None

    def caption(self, table: pd.DataFrame) -> str:
        """What is listed, over which patterns, on which device."""
        seconds = [ratios.times(table, self.dtype, row.layout) for row in self._rows(table)]
        factors = [ratios.speedup(s, r.ours, r.rivals) for s, r in zip(seconds, self._rows(table), strict=True)]
        return sentences(
            "Percentage of patterns where time(ours) < time(rivals), out of those for which both have a time, and the "
            "median of time(rivals)/time(ours) over the patterns where ours is faster (median acceleration) and over "
            "all of them (median ratio).",
            in_layouts(table, self.dtype) if any(row.layout is None for row in self.rows) else "",
            ratios.absence(table, self.dtype, [*ratios.SPECIALISED, *ratios.GENERIC]),
            f"Rows with {ratios.ADDED} are not in the paper; in batch_first it takes patterns with d = 1 only."
            if any(row.added for row in self._rows(table))
            else "",
            "Column paper_a100: what the paper's text reports for an A100." if self.of_the_paper else "",
            conditions(table, self.dtype, *(values.index for values in factors)),
        )

    def draw(self, table: pd.DataFrame, output: Path) -> None:
        """Writes <output>/<name>.csv and .md."""
        sheets.save(self.frame(table), self.name, output, self.caption(table))

    def frame(self, table: pd.DataFrame) -> pd.DataFrame:
        """One line per comparison; columns without any value are left out."""
        return pd.DataFrame([self._line(table, row) for row in self._rows(table)]).dropna(axis=1, how="all")

    def _rows(self, table: pd.DataFrame) -> list[Row]:
        measured = ratios.ADDED in ratios.times(table, self.dtype)
        return [row for row in self.rows if measured or not row.added]

    def _why_missing(self, table: pd.DataFrame, row: Row) -> str | None:
        return ratios.why_missing(table, self.dtype, row.ours, row.rivals, layouts=[row.layout] if row.layout else [])

    def _line(self, table: pd.DataFrame, row: Row) -> dict[str, object]:
        seconds = ratios.times(table, self.dtype, row.layout)
        sides = {"ours": ratios.label(row.ours), "rivals": ratios.label(row.rivals)}
        line = {"layout": row.layout, **sides, "in_paper": "yes" if self.of_the_paper and not row.added else "no"}
        paper = row.paper or None if self.of_the_paper else None
        reason = self._why_missing(table, row)
        if reason is not None:
            return line | {"patterns": 0, "paper_a100": paper, "note": reason}
        result = ratios.compare(ratios.speedup(seconds, row.ours, row.rivals))
        return line | {
            "patterns": result.patterns,
            "faster_percent": round(100 * result.share_faster, 1),
            "median_acceleration": round(result.median_when_faster, 3),
            "median_ratio": round(result.median, 3),
            "paper_a100": paper,
            "note": left_out(table, self.dtype, row.ours, row.rivals, layout=row.layout) or None,
        }
