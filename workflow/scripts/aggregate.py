"""Puts records into one table, one row per measurement, and lists the records that could not be used.

python workflow/scripts/aggregate.py --records results/cpu-x86_64/time/records/*.json \
    --ceilings results/cpu-x86_64/ceilings.json --rejected rejected --table time.csv --rejected-list rejected.csv
"""

import argparse
import csv
import logging
from pathlib import Path

from ksmm.table import aggregate, write_table


def main() -> None:
    """Command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, nargs="*", default=[], help="what timing jobs wrote")
    parser.add_argument("--ceilings", type=Path, help="what measure_ceilings.py wrote")
    parser.add_argument("--rejected", type=Path, required=True, help="folder for records that cannot be used")
    parser.add_argument("--table", type=Path, required=True, help="CSV file to write")
    parser.add_argument("--rejected-list", type=Path, required=True, help="CSV file to write: record, reason")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    before = reasons(arguments.rejected)
    table = aggregate(arguments.records, arguments.ceilings, arguments.rejected)
    write_table(table, arguments.table)
    set_aside = [path for path, written in reasons(arguments.rejected).items() if before.get(path) != written]
    write_rejected_list(set_aside, arguments.rejected_list)


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


if __name__ == "__main__":
    main()
