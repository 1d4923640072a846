"""Says which figures and tables a table of measurements can give, and why it cannot give the others.

By hand: python figures/plan.py --table results/<device>/time.csv --output results/<device>/figures.json
It writes, for every script fig*.py and table*.py of this folder, its kind, title, caption and, if it is missing, the
reason; and beside it left_out.csv, with the columns name, title and reason of what is missing.
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
from script import FOLDER

from ksmm.table import read_table


def scripts() -> dict[str, ModuleType]:
    """Every figure's and table's script by name, found by being there."""
    paths = [*sorted(FOLDER.glob("fig*.py")), *sorted(FOLDER.glob("table*.py"))]
    return {path.stem: importlib.import_module(path.stem) for path in paths}


def plan(table: pd.DataFrame) -> dict[str, dict[str, str | None]]:
    """For each script: kind ("figure" or "table"), title, caption ("" where it is missing), missing (None or why)."""
    entries = {}
    for name, module in scripts().items():
        reason = module.missing(table)
        entries[name] = {
            "kind": "figure" if name.startswith("fig") else "table",
            "title": module.TITLE,
            "caption": module.caption(table) if reason is None else "",
            "missing": reason,
        }
    return entries


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
        write(plan(read_table(arguments.table)), arguments.output)
    except (OSError, ValueError) as error:
        sys.exit(f"plan: {error}")


if __name__ == "__main__":
    main()
