"""Says which figures and tables a table of measurements can give, and why it cannot give the others.

By hand: python figures/plan.py --table results/<device>/time.csv --output results/<device>/figures.json
It writes, for every script fig*.py and table*.py of this folder, its kind, study, title, caption and, if it is missing,
the reason; and beside it left_out.csv, with the columns name, title and reason of what is missing. The tables of the
other studies (energy.csv, networks.csv) are read from beside that of times, where they are there.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pandas as pd
from script import FOLDER, TABLES, of_one_device, study_of

_WITHOUT = {
    "time": "there is no time.csv; `snakemake --cores all` measures it",
    "energy": "there is no energy.csv; `snakemake --cores all` measures it where the config key energy.measure is on",
    "networks": "there is no networks.csv; `snakemake --cores all networks` measures it",
}
"""Why a script whose study has no table is missing, and how to get that table."""


def scripts() -> dict[str, ModuleType]:
    """Every figure's and table's script by name, found by being there."""
    paths = [*sorted(FOLDER.glob("fig*.py")), *sorted(FOLDER.glob("table*.py"))]
    return {path.stem: importlib.import_module(path.stem) for path in paths}


def plan(tables: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, str | None]]:
    """What each script is: kind, study, title, caption ("" where it is missing), missing (None or why).

    Args:
        tables: by study, those that there are; the figures of another study are missing.

    Returns:
        By name of the script; kind is "figure" or "table".
    """
    entries = {}
    for name, module in scripts().items():
        study = study_of(module)
        table = tables.get(study)
        reason = _WITHOUT[study] if table is None else module.missing(table)
        entries[name] = {
            "kind": "figure" if name.startswith("fig") else "table",
            "study": study,
            "title": module.TITLE,
            "caption": "" if reason is not None else module.caption(table),
            "missing": reason,
        }
    return entries


def read_tables(time_table: Path) -> dict[str, pd.DataFrame]:
    """The table of times, and those that lie beside it.

    Raises:
        OSError: the table of times cannot be read.
        ValueError: a table cannot be used, or is of several devices.
    """
    others = {name: time_table.with_name(f"{name}.csv") for name in TABLES if name != "time"}
    paths = {"time": time_table} | {name: path for name, path in others.items() if path.exists()}
    return {name: of_one_device(TABLES[name].read(path), name) for name, path in paths.items()}


def write(entries: dict[str, dict[str, str | None]], output: Path) -> None:
    """Writes the plan to `output` and what is missing to left_out.csv beside it."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with (output.parent / "left_out.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["name", "title", "reason"])
        rows.writerows([name, e["title"], e["missing"]] for name, e in entries.items() if e["missing"] is not None)
    output.write_text(json.dumps(entries, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", type=Path, required=True, help="the measurements, results/<device>/time.csv")
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    arguments = parser.parse_args()
    try:
        write(plan(read_tables(arguments.table)), arguments.output)
    except (OSError, ValueError) as error:
        sys.exit(f"plan: {error}")


if __name__ == "__main__":
    main()
