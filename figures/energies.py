"""The aggregation that figures and tables of energy share: best layout, ratios, devices.

Every function starts from the table `energy.csv` (one row per measurement, of one or several devices) and looks at rows
with status `ok` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd
import ratios

from ksmm.problem import DTYPES


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
    return [dtype for dtype in DTYPES if dtype in found]


def energies(table: pd.DataFrame, dtype: str, layout: str | None = None, column: str = "energy_j") -> pd.DataFrame:
    """Joules of one product, one row per (pattern, batch size), one column per implementation.

    Args:
        table: rows of energy.csv, of one device.
        dtype: "float32", …
        layout: "batch_first", "batch_last", or None for the one that takes the less energy, as in Figure 7.
        column: "energy_j", "above_idle_j", or "median_s" for the seconds of the same windows.
    """
    rows = table[(table.status == "ok") & (table.dtype == dtype)]
    if layout is not None:
        rows = rows[rows.layout == layout]
    return rows.groupby([*ratios.PROBLEM, "implementation"], sort=False)[column].min().unstack("implementation")


def over_rivals(
    table: pd.DataFrame,
    dtype: str,
    layout: str | None = None,
    column: str = "energy_j",
    rivals: Sequence[str] = ratios.RIVALS,
) -> pd.Series:
    """What the kernel takes over the least that one of the rivals takes; below 1, the kernel takes less.

    Patterns that the kernel or all rivals have no number for are left out, and so is what is not above 0.
    """
    joules = energies(table, dtype, layout, column)
    joules = joules[joules > 0]
    return (ratios.fastest(joules, ["kernel"]) / ratios.fastest(joules, rivals)).dropna()


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
