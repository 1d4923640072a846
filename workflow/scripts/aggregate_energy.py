"""Puts records of energies into one table; lists the records that could not be used, and wrong results.

python workflow/scripts/aggregate_energy.py --records results/nvidia-h200/energy/records/*.json \
    --ceilings results/nvidia-h200/ceilings.json --energy-ceilings results/nvidia-h200/energy/ceilings.json \
    --rejected rejected --table energy.csv --rejected-list rejected.csv --wrong-list wrong.csv
"""

from pathlib import Path

from aggregation import Aggregation, parser

from ksmm.energy_aggregate import aggregate_energy
from ksmm.energy_table import write_energy_table
from ksmm.measure.identity import identities_in

WRONG = ["device", "implementation", "dtype", "layout", "part"]


def main() -> None:
    """Command line of this script."""
    options = parser(__doc__, "energy jobs")
    options.add_argument("--imported", type=Path, nargs="*", default=[], help="records of others, of any device")
    options.add_argument("--ceilings", type=Path, help="what measure_ceilings.py wrote")
    options.add_argument("--energy-ceilings", type=Path, help="what measure_energy_ceilings.py wrote")
    options.add_argument("--published-table", type=Path, help="a table of which the imported rows are taken over")
    arguments = options.parse_args()
    aggregation = Aggregation(arguments, identities_in)
    table = aggregate_energy(
        arguments.records,
        arguments.ceilings,
        arguments.energy_ceilings,
        arguments.rejected,
        arguments.device,
        aggregation.used,
        arguments.imported,
        arguments.published_table,
    )
    write_energy_table(table, arguments.table)
    aggregation.finish(table, WRONG, "pattern")


if __name__ == "__main__":
    main()
