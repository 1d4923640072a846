"""Puts records of the study networks into one table, networks.csv, and lists the records that could not be used.

python workflow/scripts/aggregate_networks.py --records results/<device>/networks/records/*.json \
    --rejected rejected --table networks.csv --rejected-list rejected.csv
"""

import argparse
import logging
from pathlib import Path

from aggregate import clear_journal, reasons, write_rejected_list

from ksmm.networks.job import identities_in
from ksmm.networks.table import aggregate, write_networks_table


def main() -> None:
    """Command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, nargs="*", default=[], help="what measure_networks.py wrote")
    parser.add_argument("--rejected", type=Path, required=True, help="folder for records that cannot be used")
    parser.add_argument("--device", help="slug of the device whose records these are (any)")
    parser.add_argument("--journal", type=Path, help="of the jobs: cleared of what is in the table by now")
    parser.add_argument("--table", type=Path, required=True, help="CSV file to write")
    parser.add_argument("--rejected-list", type=Path, required=True, help="CSV file to write: record, reason")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    before = reasons(arguments.rejected)
    write_networks_table(aggregate(arguments.records, arguments.rejected, arguments.device), arguments.table)
    set_aside = [path for path, written in reasons(arguments.rejected).items() if before.get(path) != written]
    write_rejected_list(set_aside, arguments.rejected_list)
    if arguments.journal is not None:
        clear_journal(arguments.journal, arguments.records, identities_in)


if __name__ == "__main__":
    main()
