"""The aggregation that figures and tables of energy share: best layout, ratios, devices.

Every function starts from the table `energy.csv` (one row per measurement, of one or several devices) and looks at rows
with status `ok` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd
import ratios

from ksmm.names import DTYPE_NAMES


def devices(table: pd.DataFrame) -> list[str]:
    """Slugs of the devices with an energy: those that were measured here first, then those that were imported."""
    ok = table[table.status == "ok"].sort_values("source", ascending=False, kind="stable")
    return list(dict.fromkeys(ok.device))


def of_device(table: pd.DataFrame, device: str) -> pd.DataFrame:
    """The rows of one device."""
    return table[table.device == device]


def first_device(table: pd.DataFrame, sides: Iterable[Sequence[str]], column: str = "energy_j") -> pd.DataFrame:
    """The rows with a number of the first device that has one for some implementation of each side; else none."""
    numbers = table[(table.status == "ok") & table[column].notna()]
    for device in devices(numbers):
        rows = of_device(numbers, device)
        if all(rows.implementation.isin(side).any() for side in map(tuple, sides)):
            return rows
    return numbers.iloc[:0]


def dtypes(table: pd.DataFrame) -> list[str]:
    """Dtypes with an energy, float32 first."""
    found = set(table[table.status == "ok"].dtype)
    return [dtype for dtype in DTYPE_NAMES if dtype in found]


def energies(table: pd.DataFrame, dtype: str, layout: str | None = None) -> pd.DataFrame:
    """Joules of one product, one row per (pattern, batch size), one column per implementation.

    Args:
        table: rows of energy.csv, of one device.
        dtype: "float32", …
        layout: "batch_first", "batch_last", or None for the one that takes the less energy, as in Figure 7.
    """
    rows = _measured(table, dtype, layout)
    return rows.groupby([*ratios.PROBLEM, "implementation"], sort=False).energy_j.min().unstack("implementation")


def over_rivals(
    table: pd.DataFrame,
    dtype: str,
    layout: str | None = None,
    column: str = "energy_j",
    rivals: Sequence[str] = ratios.RIVALS,
) -> pd.Series:
    """What the kernel takes over what the rival of least energy takes; below 1, the kernel takes less.

    Whatever the column, it is of the measurements that take the least energy: of the kernel in one layout, and of one
    rival in one layout. Patterns that one of these has no number for are left out, and so is what is not above 0.

    Args:
        table: rows of energy.csv, of one device.
        dtype: "float32", …
        layout: "batch_first", "batch_last", or None for the one that takes the less energy.
        column: "energy_j", or another number of these measurements, such as "above_idle_j" or "median_s".
        rivals: the implementations that the kernel is compared to.
    """
    rows = _measured(table, dtype, layout)
    ours, theirs = (_least(rows[rows.implementation.isin(names)])[column] for names in (["kernel"], rivals))
    ours, theirs = ours[ours > 0], theirs[theirs > 0]
    return (ours / theirs.reindex(ours.index)).dropna()


def _measured(table: pd.DataFrame, dtype: str, layout: str | None) -> pd.DataFrame:
    rows = table[(table.status == "ok") & (table.dtype == dtype)]
    return rows if layout is None else rows[rows.layout == layout]


def _least(rows: pd.DataFrame) -> pd.DataFrame:
    """The row that takes the least energy, for each (pattern, batch size), in the order of the table."""
    least = rows.sort_values("energy_j", kind="stable").drop_duplicates(ratios.PROBLEM)
    return least.sort_index().set_index(ratios.PROBLEM)


def why_missing(table: pd.DataFrame, names: Iterable[Sequence[str]] = (("kernel",), ratios.RIVALS)) -> str | None:
    """Why nothing can be drawn of any device and dtype, or None if something can.

    Args:
        table: rows of energy.csv.
        names: sides of a comparison, each of which needs an energy of one of its implementations.
    """
    if table.empty:
        return "the table has no energies: the energy study is off (config key energy.measure)"
    if not (table.status == "ok").any():
        return f"no energy was measured ({_first_reason(table, set(table.implementation))})"
    sides = [tuple(side) for side in names]
    for device in devices(table):
        for dtype in dtypes(of_device(table, device)):
            joules = energies(of_device(table, device), dtype)
            if not sides or not pd.concat([ratios.fastest(joules, side) for side in sides], axis=1).dropna().empty:
                return None
    ok = table[table.status == "ok"]
    for side in sides:
        if not ok.implementation.isin(side).any():
            return f"{ratios.listed(side)} took no measured energy ({_first_reason(table, set(side))})"
    return f"no pattern has an energy for each of {', '.join(ratios.label(side) for side in sides)}"


def _first_reason(table: pd.DataFrame, names: set[str]) -> str:
    rows = table[table.implementation.isin(names) & (table.status != "ok")]
    return "not measured" if rows.empty else f"{rows.status.iloc[0]}: {rows.reason.iloc[0]}"


def title(table: pd.DataFrame, device: str) -> str:
    """The device's name, for the title of a panel."""
    return str(of_device(table, device).device_name.iloc[0])


def of_the_authors(table: pd.DataFrame) -> str:
    """A sentence on the devices that others measured; empty if there are none."""
    imported = table[(table.source == "imported") & (table.status == "ok")]
    names = list(dict.fromkeys(imported.device_name))
    return f"{ratios.listed(names)}: as the authors of the paper published it." if names else ""
