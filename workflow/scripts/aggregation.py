"""What the scripts that put records into a table have in common: their options, and what they tell of the records."""

from __future__ import annotations

import argparse
import csv
import io
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas

from ksmm.measure.files import write_atomically
from ksmm.measure.journal import Journal

_LISTED = ".listed"
"""In a folder of rejected records: the reasons that a list had before, and when each was written."""


class Aggregation:
    """One run of such a script: what was set aside since the last one, and what its records hold.

    Args:
        arguments: the command line, with the options that `parser` adds.
        identities_of: a record to what the journal knows its measurements by.
    """

    def __init__(
        self, arguments: argparse.Namespace, identities_of: Callable[[dict[str, Any]], list[dict[str, Any]]]
    ) -> None:
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        self.arguments = arguments
        self.identities_of = identities_of
        self.identities: list[dict[str, Any]] = []

    def used(self, record: dict[str, Any]) -> None:
        """Takes note of a record that can be used."""
        if self.arguments.journal is not None:
            self.identities += self.identities_of(record)

    def finish(self, table: pandas.DataFrame, wrong_keys: list[str], problem: str) -> None:
        """Writes the lists of rejected records and wrong results; clears the journal of what is in the table by now.

        Args:
            table: what was written before.
            wrong_keys: the columns that tell wrong results from each other.
            problem: the column that says on what they occurred.
        """
        written = reasons(self.arguments.rejected)
        before = listed_before(self.arguments.rejected)
        write_rejected_list([path for path in written if before.get(path.name) != written[path]], self.arguments)
        write_wrong_list(table, wrong_keys, problem, self.arguments.wrong_list)
        if self.arguments.journal is not None and self.arguments.journal.is_dir():
            Journal(self.arguments.journal).remove(self.identities)
        if written:
            names = {path.name: time for path, time in written.items()}
            write_atomically(self.arguments.rejected / _LISTED, json.dumps(names, indent=0) + "\n")


def parser(description: str | None, writes: str) -> argparse.ArgumentParser:
    """The options that all of them have; `writes` says what wrote the records."""
    added = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    added.add_argument("--records", type=Path, nargs="*", default=[], help=f"what {writes} wrote")
    added.add_argument("--rejected", type=Path, required=True, help="folder for records that cannot be used")
    added.add_argument("--device", help="slug of the device whose records these are (any)")
    added.add_argument("--journal", type=Path, help="of the jobs: cleared of what is in the table by now")
    added.add_argument("--table", type=Path, required=True, help="CSV file to write")
    added.add_argument("--rejected-list", type=Path, required=True, help="CSV file to write: record, reason")
    added.add_argument("--wrong-list", type=Path, required=True, help="CSV file to write: what computed wrong numbers")
    return added


def reasons(folder: Path) -> dict[Path, int]:
    """The files in the folder that say why a record could not be used, and when they were written."""
    return {path: path.stat().st_mtime_ns for path in sorted(folder.glob("*.reason.txt"))}


def listed_before(folder: Path) -> dict[str, int]:
    """Those of them that a list before had: what `resume` set aside since then is not among them."""
    try:
        found = json.loads((folder / _LISTED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = {}
    return found if isinstance(found, dict) else {}


def write_rejected_list(reason_files: list[Path], arguments: argparse.Namespace) -> None:
    """Writes one row for each record that was set aside: its name in the folder, and why it is there."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["record", "reason"])
    for reason in reason_files:
        writer.writerow([reason.name.removesuffix(".reason.txt"), reason.read_text(encoding="utf-8").strip()])
    write_atomically(arguments.rejected_list, text.getvalue())


def write_wrong_list(table: pandas.DataFrame, keys: list[str], problem: str, path: Path) -> None:
    """Writes one row for each of what the keys tell apart whose result was wrong, with the first problem."""
    wrong = table[table.status == "wrong"].groupby(keys, sort=True)
    named = {f"{problem}s": (problem, "nunique"), f"first_{problem}": (problem, "first"), "reason": ("reason", "first")}
    rows = wrong.agg(**named).reset_index()
    write_atomically(path, rows.to_csv(index=False, lineterminator="\n"))
    for row in rows.astype(str).itertuples(index=False):
        logging.warning(
            "WRONG: %s, on %s %ss, the first %s: %s", " ".join(row[:-3]), row[-3], problem, row[-2], row[-1]
        )
