"""Says which figures and tables a table of measurements can give, and why it cannot give the others.

By hand: python figures/plan.py --table results/<device>/{time,energy}.csv --output results/<device>/figures.json
It writes, for every script fig*.py and table*.py of this folder, its kind, study, title, caption and, if it is missing,
the reason; and beside it left_out.csv, with the columns name, title and reason of what is missing. The name of a table
says of which study it is (time.csv, energy.csv, networks.csv); no others are read.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from script import FOLDER, TABLES, of_one_device, study_of

_WITHOUT = {
    "time": "there is no time.csv; `snakemake --cores all` measures it",
    "energy": "there is no energy.csv; `snakemake --cores all` measures it where the config key energy.measure is on",
    "networks": "there is no networks.csv; `snakemake --cores all` measures it where networks.in_all is on",
}
"""Why a script whose study has no table is missing, and how to get that table."""


def names() -> list[str]:
    """The name of every figure's and table's script, found by being there."""
    return [path.stem for kind in ("fig", "table") for path in sorted(FOLDER.glob(f"{kind}*.py"))]


def plan(tables: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, str | None]]:
    """What each script is: kind, study, title, caption ("" where it is missing), missing (None or why).

    Args:
        tables: by study, those that there are; the figures of another study are missing.

    Returns:
        By name of the script; kind is "figure" or "table".
    """
    return {name: _entry(name, tables) for name in names()}


def _entry(name: str, tables: Mapping[str, pd.DataFrame]) -> dict[str, str | None]:
    kind = "figure" if name.startswith("fig") else "table"
    try:
        module = importlib.import_module(name)
        study = study_of(module)
        table = tables.get(study)
        reason = _WITHOUT[study] if table is None else module.missing(table)
        caption = "" if reason is not None else module.caption(table)
        return {"kind": kind, "study": study, "title": module.TITLE, "caption": caption, "missing": reason}
    except Exception as error:  # noqa: BLE001 - a script that is being written may raise anything; the others must go on
        reason = f"figures/{name}.py cannot be used ({type(error).__name__}: {error}); mend it"
        return {"kind": kind, "study": "time", "title": name, "caption": "", "missing": " ".join(reason.split())}


def read_tables(*paths: Path) -> dict[str, pd.DataFrame]:
    """The tables by study, of which the name of the file speaks.

    Raises:
        OSError: a table cannot be read.
        ValueError: it cannot be used, is of several devices, or no study has a table of that name.
    """
    unknown = [path for path in paths if path.stem not in TABLES]
    if unknown:
        known = ", ".join(f"{study}.csv" for study in TABLES)
        raise ValueError(f"{unknown[0]} is the table of no study; it must be called one of {known}")
    return {path.stem: of_one_device(TABLES[path.stem].read(path), path.stem) for path in paths}


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
    parser.add_argument(
        "--table", type=Path, nargs="+", required=True, help="results/<device>/time.csv, energy.csv ..."
    )
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    arguments = parser.parse_args()
    try:
        write(plan(read_tables(*arguments.table)), arguments.output)
    except (OSError, ValueError) as error:
        sys.exit(f"plan: {error}")


if __name__ == "__main__":
    main()
