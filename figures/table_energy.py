"""Figure 7 in numbers, for each device, dtype and layout, and what an operation costs (not in the paper).

By hand: python figures/table_energy.py --table results/<device>/energy.csv --output FOLDER
"""

from __future__ import annotations

from pathlib import Path

import energies
import pandas as pd
import ratios
import sheets
from script import main, sentences

NAME = Path(__file__).stem
STUDY = "energy"
TITLE = "Table of energies (not in the paper): kernel against its rivals, for each dtype and layout"
SIDES = (ratios.RIVALS, (ratios.ADDED,))
LAYOUTS = {"better of both": None, "batch_first": "batch_first", "batch_last": "batch_last"}
PAPER = {("float32", "better of both"): "0.85, 72 %"}


def caption(table: pd.DataFrame) -> str:
    """What is listed, over which patterns, on which devices."""
    ok = table[table.status == "ok"]
    patterns = ok.groupby("device_name", sort=False).pattern.nunique()
    devices = " and ".join(f"{name}, {number:,} patterns" for name, number in patterns.items())
    sizes = " and ".join(f"{size:,}" for size in sorted(ok.batch_size.unique()))
    return sentences(
        "Energy of one product with kernel over the least of its rivals: the median over the patterns that both sides "
        "have an energy for, and the percentage of them where kernel takes less. Better of both: for each "
        "implementation the layout that takes the less energy. What else there is, is of the same measurements. "
        "median_ratio_of_means and less_mean_energy_percent: the energy of all windows over all products, instead of "
        "the median over the windows, which depends on where these are in the cycle of the device's power limit. "
        "above_idle: without what the device would have taken at rest in that time. time_median_ratio: the time in "
        "those windows, also where another layout is faster. picojoules_per_operation: of kernel, over 2·B·abcd. "
        "protocol_met_percent: measurements of either side with as many windows and products, and as certain, as the "
        "protocol asks for. Rivals: those of bmm, einsum and bsr that have an energy, and bmm_strided alone.",
        energies.of_the_authors(table),
        "Column paper_v100: the paper's median and percentage.",
        f"{devices}, batch {sizes}, {' and '.join(energies.dtypes(table))}.",
    )


def missing(table: pd.DataFrame) -> str | None:
    """Why the table cannot give any row, or None."""
    return energies.why_missing(table, (("kernel",), (ratios.ADDED, *ratios.RIVALS)))


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.csv and .md."""
    sheets.save(frame(table), NAME, output, caption(table))


def frame(table: pd.DataFrame) -> pd.DataFrame:
    """One line for each device, dtype, layout and side of rivals; columns without any value are left out."""
    lines = [
        _line(energies.of_device(table, device), device, dtype, layout, side)
        for device in energies.devices(table)
        for dtype in energies.dtypes(energies.of_device(table, device))
        for side in SIDES
        for layout in LAYOUTS
    ]
    return pd.DataFrame([line for line in lines if line is not None]).dropna(axis=1, how="all")


def _line(rows: pd.DataFrame, device: str, dtype: str, layout: str, side: tuple[str, ...]) -> dict[str, object] | None:
    of = {"dtype": dtype, "layout": LAYOUTS[layout], "rivals": side}
    factors = energies.over_rivals(rows, **of)
    if factors.empty:
        return None
    means, above, seconds = (
        energies.over_rivals(rows, column=name, **of) for name in ("mean_energy_j", "above_idle_j", "median_s")
    )
    ok = rows[(rows.status == "ok") & (rows.dtype == dtype)]
    compared = ok[ok.implementation.isin(("kernel", *side)) & (ok.protocol_met != "")]
    if LAYOUTS[layout] is not None:
        compared = compared[compared.layout == LAYOUTS[layout]]
    return {
        "device": device,
        "dtype": dtype,
        "layout": layout,
        "rivals": ratios.label([name for name in side if name in set(ok.implementation)]),
        "patterns": len(factors),
        "median_ratio": _rounded(factors.median()),
        "less_energy_percent": _percent(factors < 1),
        "median_ratio_of_means": _rounded(means.median()),
        "less_mean_energy_percent": _percent(means < 1),
        "above_idle_median_ratio": _rounded(above.median()),
        "time_median_ratio": _rounded(seconds.median()),
        "picojoules_per_operation": _rounded(_picojoules(rows, dtype, LAYOUTS[layout], factors.index)),
        "protocol_met_percent": _percent(compared.protocol_met == "yes"),
        "paper_v100": PAPER.get((dtype, layout)) if ratios.ADDED not in side else None,
    }


def _picojoules(rows: pd.DataFrame, dtype: str, layout: str | None, problems: pd.Index) -> float:
    joules = energies.energies(rows, dtype, layout).kernel.loc[problems]
    operations = rows.drop_duplicates(ratios.PROBLEM).set_index(ratios.PROBLEM).operations.loc[problems]
    return 1e12 * (joules / operations).median()


def _percent(met: pd.Series) -> float | None:
    return round(100 * float(met.mean()), 1) if len(met) else None


def _rounded(value: float) -> float | None:
    return None if pd.isna(value) else float(f"{value:.3g}")


if __name__ == "__main__":
    main(__name__)
