"""Says which figures and tables a table of measurements can give, and why it cannot give the others.

By hand: python figures/plan.py --table results/<device>/time.csv --output results/<device>/figures.json
It writes, for every script fig*.py and table*.py of this folder, its kind, title, caption, the table that it reads
(those other than time.csv lie beside it) and, if it is missing, the reason; and beside it left_out.csv, with the
columns name, title and reason of what is missing.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pandas as pd
from script import FOLDER, TABLES, source_name


def scripts() -> dict[str, ModuleType]:
    """Every figure's and table's script by name, found by being there."""
    paths = [*sorted(FOLDER.glob("fig*.py")), *sorted(FOLDER.glob("table*.py"))]
    return {path.stem: importlib.import_module(path.stem) for path in paths}


def plan(tables: dict[str, pd.DataFrame]) -> dict[str, dict[str, str | None]]:
    """For each script: kind ("figure" or "table"), title, caption, source, missing (None or why; then no caption).

    Args:
        tables: those that there are, by the name that a script's SOURCE gives.
    """
    entries = {}
    for name, module in scripts().items():
        source = source_name(module)
        if source in tables:
            reason = module.missing(tables[source])
        else:
            reason = f"there is no {source}.csv; measure it with snakemake --cores all {source}"
        entries[name] = {
            "kind": "figure" if name.startswith("fig") else "table",
            "title": module.TITLE,
            "caption": module.caption(tables[source]) if reason is None else "",
            "source": source,
            "missing": reason,
        }
    return entries


def read_tables(time_table: Path) -> dict[str, pd.DataFrame]:
    """The table of times, and those that lie beside it.

    Raises:
        OSError: the table of times cannot be read.
        ValueError: a table cannot be used.
    """
    others = {name: time_table.with_name(f"{name}.csv") for name in TABLES if name != "time"}
    paths = {"time": time_table} | {name: path for name, path in others.items() if path.exists()}
    return {name: TABLES[name].read(path) for name, path in paths.items()}


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
