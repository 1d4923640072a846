"""Puts records of energies into one table, one row per measurement, and lists the records that could not be used.

python workflow/scripts/aggregate_energy.py --records results/nvidia-h200/energy/records/*.json \
    --ceilings results/nvidia-h200/ceilings.json --energy-ceilings results/nvidia-h200/energy/ceilings.json \
    --rejected rejected --table energy.csv --rejected-list rejected.csv
"""

import argparse
import logging
from pathlib import Path

from aggregate import clear_journal, reasons, write_rejected_list

from ksmm.energy_table import aggregate_energy, write_energy_table


def main() -> None:
    """Command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, nargs="*", default=[], help="what energy jobs wrote, or was imported")
    parser.add_argument("--ceilings", type=Path, help="what measure_ceilings.py wrote")
    parser.add_argument("--energy-ceilings", type=Path, help="what measure_energy_ceilings.py wrote")
    parser.add_argument("--published-table", type=Path, help="a table of which the imported rows are taken over")
    parser.add_argument("--rejected", type=Path, required=True, help="folder for records that cannot be used")
    parser.add_argument("--journal", type=Path, help="of the energy jobs: cleared of what is in the table by now")
    parser.add_argument("--table", type=Path, required=True, help="CSV file to write")
    parser.add_argument("--rejected-list", type=Path, required=True, help="CSV file to write: record, reason")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    before = reasons(arguments.rejected)
    table = aggregate_energy(
        arguments.records,
        arguments.ceilings,
        arguments.energy_ceilings,
        arguments.rejected,
        arguments.published_table,
    )
    write_energy_table(table, arguments.table)
    set_aside = [path for path, written in reasons(arguments.rejected).items() if before.get(path) != written]
    write_rejected_list(set_aside, arguments.rejected_list)
    if arguments.journal is not None:
        clear_journal(arguments.journal, arguments.records)


if __name__ == "__main__":
    main()
