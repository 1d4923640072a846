"""Puts records into one table, one row per measurement; lists the records that could not be used, and wrong results.

python workflow/scripts/aggregate.py --records results/cpu-x86_64/time/records/*.json \
    --ceilings results/cpu-x86_64/ceilings.json --rejected rejected --table time.csv --rejected-list rejected.csv \
    --wrong-list wrong.csv
"""

import argparse
import csv
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas

from ksmm.measure.files import write_atomically
from ksmm.measure.identity import identities_in
from ksmm.measure.journal import Journal
from ksmm.measure.records import load_json
from ksmm.table import aggregate, write_table


def main() -> None:
    """Command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, nargs="*", default=[], help="what timing jobs wrote")
    parser.add_argument("--ceilings", type=Path, help="what measure_ceilings.py wrote")
    parser.add_argument("--rejected", type=Path, required=True, help="folder for records that cannot be used")
    parser.add_argument("--device", help="slug of the device whose records these are (any)")
    parser.add_argument("--journal", type=Path, help="of the timing jobs: cleared of what is in the table by now")
    parser.add_argument("--table", type=Path, required=True, help="CSV file to write")
    parser.add_argument("--rejected-list", type=Path, required=True, help="CSV file to write: record, reason")
    parser.add_argument("--wrong-list", type=Path, required=True, help="CSV file to write: what computed wrong numbers")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    before = reasons(arguments.rejected)
    table = aggregate(arguments.records, arguments.ceilings, arguments.rejected, arguments.device)
    write_table(table, arguments.table)
    write_wrong_list(table, arguments.wrong_list)
    set_aside = [path for path, written in reasons(arguments.rejected).items() if before.get(path) != written]
    write_rejected_list(set_aside, arguments.rejected_list)
    if arguments.journal is not None:
        clear_journal(arguments.journal, arguments.records)


def clear_journal(
    journal: Path, records: list[Path], identities_of: Callable[[dict[str, Any]], list[dict[str, Any]]] = identities_in
) -> None:
    """Removes from the journal what is in those of these records that are still there: they are valid."""
    if journal.is_dir():
        kept = [load_json(path) for path in records if path.exists()]
        Journal(journal).remove([identity for record in kept for identity in identities_of(record)])


def reasons(folder: Path) -> dict[Path, int]:
    """The files in the folder that say why a record could not be used, and when they were written."""
    return {path: path.stat().st_mtime_ns for path in sorted(folder.glob("*.reason.txt"))}


def write_rejected_list(reason_files: list[Path], path: Path) -> None:
    """Writes one row for each record that was set aside: its name in the folder, and why it is there."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["record", "reason"])
        for reason in reason_files:
            writer.writerow([reason.name.removesuffix(".reason.txt"), reason.read_text(encoding="utf-8").strip()])


def write_wrong_list(table: pandas.DataFrame, path: Path) -> None:
    """Writes one row for each implementation, dtype, layout and part whose result was wrong, with the first pattern."""
    keys = ["implementation", "dtype", "layout", "part"]
    wrong = table[table.status == "wrong"].groupby(keys, sort=True)
    listed = wrong.agg(patterns=("pattern", "nunique"), first_pattern=("pattern", "first"), reason=("reason", "first"))
    write_atomically(path, listed.reset_index().to_csv(index=False, lineterminator="\n"))
    for row in listed.reset_index().itertuples():
        logging.warning(
            "WRONG: %s, %s %s (%s), on %d patterns, the first %s: %s", *row[1:-2], row.first_pattern, row.reason
        )


if __name__ == "__main__":
    main()
