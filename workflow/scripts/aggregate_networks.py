"""Puts records of the study networks into one table, networks.csv.

python workflow/scripts/aggregate_networks.py --records results/<device>/networks/records/*.json \
    --rejected results/<device>/networks/rejected --table results/<device>/networks.csv
"""

import argparse
import logging
from pathlib import Path

from ksmm.networks.table import aggregate, write_table


def main() -> None:
    """Command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, nargs="+", required=True)
    parser.add_argument("--rejected", type=Path, required=True, help="folder for records that cannot be used")
    parser.add_argument("--table", type=Path, required=True, help="CSV file to write")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    write_table(aggregate(arguments.records, arguments.rejected), arguments.table)


if __name__ == "__main__":
    main()
