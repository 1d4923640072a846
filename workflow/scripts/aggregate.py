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
    parser.add_argument("--records", type=Path, nargs="+", required=True, help="what timing jobs wrote")
    parser.add_argument("--ceilings", type=Path, required=True, help="what measure_ceilings.py wrote")
    parser.add_argument("--rejected", type=Path, required=True, help="folder for records that cannot be used")
    parser.add_argument("--table", type=Path, required=True, help="CSV file to write")
    parser.add_argument("--rejected-list", type=Path, required=True, help="CSV file to write: record, reason")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    table = aggregate(arguments.records, arguments.ceilings, arguments.rejected)
    write_table(table, arguments.table)
    write_rejected_list(arguments.rejected, arguments.rejected_list)


def write_rejected_list(folder: Path, path: Path) -> None:
    """Writes one row for each record in the folder of rejected ones: its name and why it is there."""
    reasons = sorted(folder.glob("*.reason.txt"))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["record", "reason"])
        for reason in reasons:
            writer.writerow([reason.name.removesuffix(".reason.txt"), reason.read_text(encoding="utf-8").strip()])


if __name__ == "__main__":
    main()
