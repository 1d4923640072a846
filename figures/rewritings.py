"""The drawing of Figures 4, 9 and 14: share of bmm's time that goes into rewriting memory, by (b+c)/(bc)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import ratios
import style
from boxes import boxes_by_value, convention
from groups import Group, by_value, describe_values, rank_correlation, summary
from matplotlib.figure import Figure
from script import conditions, sentences


@dataclass(frozen=True)
class Rewritings:
    """A figure of (Δt − Δt̃)/Δt of bmm (appendix B.2).

    Attributes:
        name: stem of the files.
        layouts: one panel each.
        dtype: "float32", "float16" or "bfloat16".
    """

    name: str
    layouts: tuple[str, ...]
    dtype: str = "float32"

    def missing(self, table: pd.DataFrame) -> str | None:
        """Why the table cannot give the figure, or None."""
        reason = ratios.why_missing(table, self.dtype, ["bmm"], layouts=self.layouts)
        if reason is not None:
            return reason
        for layout in self.layouts:
            if ratios.rewritings(table, self.dtype, layout).empty:
                return f"the multiplication of bmm alone has no time in {self.dtype} {layout}"
        return None

    def caption(self, table: pd.DataFrame) -> str:
        """What is drawn, of which patterns, on which device."""
        groups = [group for panel in self.panels(table).values() for group in panel]
        problems = [ratios.rewritings(table, self.dtype, layout).index for layout in self.layouts]
        return sentences(
            "(Δt − Δt̃)/Δt of bmm: Δt is the time of the whole product, Δt̃ that of its multiplication alone "
            f"(line 2 of Algorithm 1), the rest rewrites memory. Layout: {ratios.listed(self.layouts)}.",
            _below_zero(groups),
            describe_values(self.panels(table)[self.layouts[0]], "(b+c)/(bc)"),
            convention(groups),
            conditions(table, self.dtype, *problems),
        )

    def draw(self, table: pd.DataFrame, output: Path) -> None:
        """Writes <output>/<name>.pdf, .png and .csv (one row per box, and the rank correlation of its layout)."""
        data = []
        for layout, groups in self.panels(table).items():
            rows = ratios.rewritings(table, self.dtype, layout)
            correlation = rank_correlation(rows.memory_ratio, rows.share)
            data.append(summary(groups, layout=layout).assign(rank_correlation=correlation))
        style.save(self.figure(table), self.name, output, self.caption(table), pd.concat(data))

    def panels(self, table: pd.DataFrame) -> dict[str, list[Group]]:
        """For each layout, the shares grouped by (b+c)/(bc)."""
        found = {layout: ratios.rewritings(table, self.dtype, layout) for layout in self.layouts}
        return {layout: by_value(rows.memory_ratio, rows.share) for layout, rows in found.items()}

    def figure(self, table: pd.DataFrame) -> Figure:
        """One panel for each layout, one above the other, on a common axis of shares."""
        panels = self.panels(table)
        figure = style.new_figure(height=style.HEIGHT * (1 if len(panels) == 1 else 1.6))
        rows = figure.subplots(len(panels), 1, sharey=True, squeeze=False)[:, 0]
        for axes, (layout, groups) in zip(rows, panels.items(), strict=True):
            boxes_by_value(axes, groups, "bmm", "(b+c)/(bc)" if axes is rows[-1] else "")
            if len(panels) > 1:
                axes.set_title(layout, loc="right", pad=11)
            axes.set_ylabel("rewritings, share of time")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        low, high = min(axes.dataLim.y0 for axes in rows), max(axes.dataLim.y1 for axes in rows)
        rows[0].set_ylim(min(0, low - 0.03), min(1, high + 0.05))
        return figure

    def times_figure(self, table: pd.DataFrame) -> Figure:
        """Δt̃ against Δt, one point a pattern, one panel for each layout; on the diagonal nothing is rewritten."""
        figure = style.new_figure(width=style.WIDTH * (0.4 + 0.6 * len(self.layouts)), height=1.1 * style.HEIGHT)
        panels = figure.subplots(1, len(self.layouts), squeeze=False, sharex=True, sharey=True)[0]
        for axes, layout in zip(panels, self.layouts, strict=True):
            rows = ratios.rewritings(table, self.dtype, layout)
            look = {"s": 14, "marker": style.marker("bmm"), "color": style.colour("bmm"), "alpha": 0.6}
            axes.scatter(rows.whole_s * 1e3, rows.multiplication_s * 1e3, **look)
            ends = [1e3 * rows.multiplication_s.min(), 1e3 * rows.whole_s.max()]
            axes.plot(ends, ends, color="#000000", linewidth=0.8, linestyle=(0, (4, 2)))
            axes.set(xscale="log", yscale="log", title=layout, xlabel="Δt, whole product [ms]")
        panels[0].set_ylabel("Δt̃, multiplication [ms]")
        return figure


def _below_zero(groups: list[Group]) -> str:
    below = sum(int((group.values < 0).sum()) for group in groups)
    whole = sum(len(group.values) for group in groups)
    text = f"Below 0 ({below} of {whole}) the multiplication alone was timed slower than the whole product: noise."
    return text if below else ""
