"""What a run left behind: where its figures, tables, notebooks and report are, and what it could not draw or use."""

from __future__ import annotations

import csv
from pathlib import Path


def summary(results: Path) -> str:
    """Text for the end of a run: the folders with results, what was wrong, set aside or left out, and why."""
    lines = [f"Results of this run are under {results}/"]
    for what, pattern in {
        "figures": "figures/*.pdf",
        "tables": "tables/*.md",
        "notebooks": "notebooks/*.ipynb",
        "timings": "time.csv",
        "energies": "energy.csv",
        "networks": "networks.csv",
        "report": "report.html",
    }.items():
        found = sorted(results.glob(pattern))
        if found:
            where = found[0] if "*" not in pattern else f"{found[0].parent}/ ({len(found)})"
            lines.append(f"  {what:<10} {where}")
    wrong = [_wrong(row) for row in rows_of_studies(results, "wrong.csv")]
    if wrong:
        lines += ["  WRONG RESULTS, which have no time:", *(f"    {line}" for line in wrong)]
    lines += listed("left out:", read_rows(results / "left_out.csv"), "name")
    lines += listed("records set aside:", rows_of_studies(results, "rejected.csv"), "record")
    return "\n".join(lines)


def rows_of_studies(results: Path, name: str) -> list[dict[str, str]]:
    """The rows of the list of that name of each study; that of the times lies beside their table."""
    return [row for folder in (results, results / "energy", results / "networks") for row in read_rows(folder / name)]


def _wrong(row: dict[str, str]) -> str:
    if "network" in row:
        entry = " ".join(row[name] for name in ("network", "implementation", "accuracy_class", "mode"))
        return f"{entry}, in {row['parts']} parts, the first {row['first_part']}: {row['reason']}"
    part = "" if row["part"] == "whole" else f" ({row['part']})"
    energy = f", its energy on {row['device']}" if "device" in row else ""
    problem = f"{row['dtype']} {row['layout']} on {row['patterns']} patterns, the first {row['first_pattern']}"
    return f"{row['implementation']}{part}{energy}, {problem}: {row['reason']}"


def listed(title: str, rows: list[dict[str, str]], key: str) -> list[str]:
    """A title and one line for each row, or nothing where there is no row."""
    return [f"  {title}", *(f"    {row[key]}: {row['reason']}" for row in rows)] if rows else []


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file; none where there is no such file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
