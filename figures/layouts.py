"""The drawing of Figures 12 and 17: time in batch_first over time in batch_last, for each implementation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import ratios
import style
from boxes import boxes_by_name, convention
from groups import Group, summary
from matplotlib.figure import Figure
from script import conditions, sentences

from ksmm.names import LAYOUTS


@dataclass(frozen=True)
class Layouts:
    """A figure of time(batch_first) / time(batch_last) (appendix B.5).

    Attributes:
        name: stem of the files.
        dtype: "float32", "float16" or "bfloat16".
    """

    name: str
    dtype: str = "float32"

    def missing(self, table: pd.DataFrame) -> str | None:
        """Why the table cannot give the figure, or None."""
        names = sorted(table.implementation.unique())
        for layout in LAYOUTS:
            reason = ratios.why_missing(table, self.dtype, names, layouts=[layout])
            if reason is not None:
                return reason
        if self.quotients(table).empty:
            return f"in {self.dtype}, no implementation has a time in both layouts of one pattern"
        return None

    def caption(self, table: pd.DataFrame) -> str:
        """What is drawn, of which patterns, on which device."""
        quotients = self.quotients(table)
        measured = set(table[table.dtype == self.dtype].implementation) - set(ratios.NOT_IN_PAPER_FIGURES)
        left_out = measured - set(quotients)
        return sentences(
            "Time in batch_first over time in batch_last; above 1, batch_last is faster.",
            f"No pattern has both layouts of {ratios.listed(style.ordered(left_out))}." if left_out else "",
            self._incomplete(table),
            f"{ratios.ADDED} is not in the paper; in batch_first it takes patterns with d = 1 only."
            if ratios.ADDED in quotients
            else "",
            convention(self.groups(table).values()),
            conditions(table, self.dtype, quotients.index),
        )

    def draw(self, table: pd.DataFrame, output: Path) -> None:
        """Writes <output>/<name>.pdf, .png and .csv (one row per box)."""
        data = pd.concat([summary([g], implementation=name) for name, g in self.groups(table).items()])
        style.save(self.figure(table), self.name, output, self.caption(table), data.drop(columns=["low", "high"]))

    def groups(self, table: pd.DataFrame) -> dict[str, Group]:
        """For each implementation, the ratios of all patterns."""
        quotients = self.quotients(table)
        return {name: Group(1, 1, quotients[name].dropna().to_numpy()) for name in style.ordered(list(quotients))}

    def _incomplete(self, table: pd.DataFrame) -> str:
        number = len(table[table.dtype == self.dtype][ratios.PROBLEM].drop_duplicates())
        lacking = {name: number - len(group.values) for name, group in self.groups(table).items()}
        # Of bmm_strided the caption says why.
        some = [f"{count} of {name}" for name, count in lacking.items() if count and name != ratios.ADDED]
        return f"Patterns left out, without a time in one of the layouts: {ratios.listed(some)}." if some else ""

    def quotients(self, table: pd.DataFrame) -> pd.DataFrame:
        """The ratios of `ratios.layout_ratios`, without what no figure of the paper has."""
        return ratios.layout_ratios(table[~table.implementation.isin(ratios.NOT_IN_PAPER_FIGURES)], self.dtype)

    def figure(self, table: pd.DataFrame) -> Figure:
        """One box for each implementation."""
        figure = style.new_figure()
        axes = figure.subplots()
        boxes_by_name(axes, {name: group.values for name, group in self.groups(table).items()})
        style.ratio_axis(axes, label="time batch_first / time batch_last")
        return figure
