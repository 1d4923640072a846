"""The drawing of Figures 6, 10, 11 and of their float16 versions: how much faster one side is than another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import groups
import pandas as pd
import ratios
import style
from accounts import in_layouts, left_out, patterns
from boxes import boxes_by_decades, boxes_by_value, convention
from groups import Group
from matplotlib.axes import Axes
from script import conditions, sentences


@dataclass(frozen=True)
class By:
    """What the x axis shows of a pattern.

    Attributes:
        name: for captions and axis labels.
        of: rows of `ratios.times` to one number each.
        each_value: one box for each value if there are patterns enough; else ranges of equal width on a log axis.
    """

    name: str
    of: Callable[[pd.Index], list[float]]
    each_value: bool

    def group(self, values: pd.Series) -> list[Group]:
        """Groups of the values of patterns."""
        return (groups.by_value if self.each_value else groups.by_decades)(self.of(values.index), values)

    def describe(self, members: Sequence[Group]) -> str:
        """What the caption says of the groups."""
        return (groups.describe_values if self.each_value else groups.describe_decades)(members, self.name)

    def draw(self, axes: Axes, members: Sequence[Group], implementation: str) -> None:
        """The groups' boxes, in the colour of an implementation."""
        (boxes_by_value if self.each_value else boxes_by_decades)(axes, members, implementation, self.name)


MEMORY_RATIO = By("(b+c)/(bc)", lambda index: ratios.attribute(index, "memory_ratio"), each_value=True)
MATRIX_SIZE = By("matrix size M × N", ratios.matrix_sizes, each_value=False)


@dataclass(frozen=True)
class Speedup:
    """A figure of the speed-up of the fastest of `ours` over the fastest of `rivals`.

    Attributes:
        name: stem of the files.
        ours: implementations; those without any time are left out, and the caption says so.
        rivals: as ours.
        by: the x axis.
        dtype: "float32", "float16" or "bfloat16".
        only_where_specialised_wins: as in Figures 6 and 13 (appendix B.8).
    """

    name: str
    ours: tuple[str, ...]
    rivals: tuple[str, ...]
    by: By
    dtype: str = "float32"
    only_where_specialised_wins: bool = False

    def missing(self, table: pd.DataFrame) -> str | None:
        """Why the table cannot give the figure, or None."""
        reason = ratios.why_missing(table, self.dtype, self.ours, self.rivals)
        if reason is None and self.factors(table).empty:
            return f"in {self.dtype}, no specialised implementation is faster than dense and sparse for any pattern"
        return reason

    def caption(self, table: pd.DataFrame) -> str:
        """What is drawn, of which patterns, on which device."""
        factors, seconds = self.factors(table), ratios.times(table, self.dtype)
        ours, rivals = (ratios.label(ratios.present(seconds, side)) for side in (self.ours, self.rivals))
        members = self.by.group(factors)
        return sentences(
            f"Time of {rivals} over time of {ours}; above 1, {ours} is faster.",
            in_layouts(table, self.dtype),
            self._restriction(table),
            left_out(table, self.dtype, self.ours, self.rivals),
            self.by.describe(members),
            ratios.absence(table, self.dtype, [*self.ours, *self.rivals]),
            f"{ratios.ADDED}, which is not in the paper, is on neither side.",
            "Below, magnified: the groups whose boxes are lines above." if groups.flat(members) else "",
            convention(members),
            conditions(table, self.dtype, factors.index),
        )

    def draw(self, table: pd.DataFrame, output: Path) -> None:
        """Writes <output>/<name>.pdf, .png and .csv (one row per box, and the rank correlation of all patterns)."""
        factors = self.factors(table)
        members = self.by.group(factors)
        panels = [each for each in (members, groups.flat(members)) if each]
        figure = style.new_figure(height=style.HEIGHT * (1 if len(panels) == 1 else 1.6))
        seconds = ratios.times(table, self.dtype)
        side, rivals = (ratios.present(seconds, names) for names in (self.ours, self.rivals))
        for axes, each in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
            self.by.draw(axes, each, side[0] if len(side) == 1 else style.SEVERAL)
            style.ratio_axis(axes, label=f"speed-up of {ratios.label(side)}\nover {ratios.label(rivals)}")
            axes.set_title("" if each is members else "magnified", loc="right", pad=11)
        correlation = groups.rank_correlation(self.by.of(factors.index), factors)
        data = groups.summary(members).assign(rank_correlation=correlation)
        style.save(figure, self.name, output, self.caption(table), data)

    def factors(self, table: pd.DataFrame) -> pd.Series:
        """The speed-up for each pattern that is drawn."""
        seconds = ratios.times(table, self.dtype)
        if self.only_where_specialised_wins:
            seconds = ratios.where_specialised_wins(seconds)
        return ratios.speedup(seconds, self.ours, self.rivals)

    def _restriction(self, table: pd.DataFrame) -> str:
        if not self.only_where_specialised_wins:
            return ""
        seconds = ratios.times(table, self.dtype)
        specialised, generic = (ratios.present(seconds, side) for side in (ratios.SPECIALISED, ratios.GENERIC))
        if not generic:
            return f"No generic implementation ({', '.join(ratios.GENERIC)}) has a time, so all patterns are shown."
        drawn, compared = len(self.factors(table)), ratios.speedup(seconds, self.ours, self.rivals)
        unopposed = int(ratios.fastest(seconds, generic)[compared.index].isna().sum())
        faster = f"{ratios.label(specialised)} is faster than {ratios.label(generic)}"
        if unopposed:
            faster += f", or no generic implementation has a time ({patterns(unopposed)})"
        if drawn == len(compared):
            return f"All {patterns(drawn)}: for each, {faster}."
        return f"Only the {drawn} of {patterns(len(compared))} for which {faster}, as in the paper."
