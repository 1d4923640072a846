"""Figure 7: energy of the kernel over the least of bmm, einsum and bsr, by d(b+c)/(bc), in float32.

By hand: python figures/fig07_energy.py --table results/<device>/energy.csv --output FOLDER
"""

from __future__ import annotations

from pathlib import Path

import energies
import pandas as pd
import ratios
import style
from boxes import boxes_by_decades, convention
from groups import Group, by_decades, describe_decades, summary
from script import conditions, main, sentences

NAME = Path(__file__).stem
STUDY = "energy"
TITLE = "Figure 7: energy of kernel over the baselines, by d(b+c)/(bc)"
DTYPE = "float32"


def caption(table: pd.DataFrame) -> str:
    """What is drawn, of which patterns, on which devices."""
    panels = _panels(table)
    return sentences(
        "Energy of one product with kernel over the least that one of the baselines takes; below 1, kernel takes less. "
        "For each implementation the layout that takes the less energy.",
        *(_account(table, device) for device in panels),
        energies.of_the_authors(table),
        describe_decades(next(iter(panels.values())), "d(b+c)/(bc)"),
        convention(group for members in panels.values() for group in members),
        "The paper, on a Tesla V100: median 0.85, less energy in 72 % of the cases.",
    )


def missing(table: pd.DataFrame) -> str | None:
    """Why the table cannot give the figure, or None."""
    reason = energies.why_missing(table)
    if reason is None and not _panels(table):
        return f"no device has an energy of kernel and of a baseline in {DTYPE}"
    return reason


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.pdf, .png and .csv (one row per box); a panel for each device."""
    panels = _panels(table)
    figure = style.new_figure(style.WIDTH * (0.25 + 0.75 * len(panels)), style.HEIGHT)
    row = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, (device, members) in zip(row, panels.items(), strict=True):
        boxes_by_decades(axes, members, "kernel", "d(b+c)/(bc)")
        axes.set_title(energies.title(table, device), loc="right", pad=11)
    style.ratio_axis(*row, label="energy of kernel over\nthat of the best baseline")
    data = pd.concat([summary(members, device=device, dtype=DTYPE) for device, members in panels.items()])
    style.save(figure, NAME, output, caption(table), data)


def _panels(table: pd.DataFrame) -> dict[str, list[Group]]:
    factors = {device: _factors(table, device) for device in energies.devices(table)}
    return {
        device: by_decades(ratios.attribute(values.index, "energy_ratio"), values)
        for device, values in factors.items()
        if not values.empty
    }


def _factors(table: pd.DataFrame, device: str) -> pd.Series:
    return energies.over_rivals(energies.of_device(table, device), DTYPE)


def _account(table: pd.DataFrame, device: str) -> str:
    values, rows = _factors(table, device), energies.of_device(table, device)
    rivals = _rivals(rows)
    drawn = rows[rows.implementation.isin(("kernel", *rivals))]
    share = (
        f"Median {values.median():.3f} times {ratios.label(rivals)}, less energy in {100 * (values < 1).mean():.1f} %"
    )
    return f"{share}: {conditions(drawn, DTYPE, values.index)}"


def _rivals(table: pd.DataFrame) -> tuple[str, ...]:
    ok = set(table[(table.status == "ok") & (table.dtype == DTYPE)].implementation)
    return tuple(name for name in ratios.RIVALS if name in ok)


if __name__ == "__main__":
    main(__name__)
