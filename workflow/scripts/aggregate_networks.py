"""Puts records of the study networks into one table; lists the records that could not be used, and wrong results.

python workflow/scripts/aggregate_networks.py --records results/<device>/networks/records/*.json \
    --rejected rejected --table networks.csv --rejected-list rejected.csv --wrong-list wrong.csv
"""

from aggregation import Aggregation, parser

from ksmm.networks.identity import identities_in
from ksmm.networks.table import aggregate, write_networks_table

WRONG = ["network", "implementation", "accuracy_class", "mode"]


def main() -> None:
    """Command line of this script."""
    arguments = parser(__doc__, "measure_networks.py").parse_args()
    aggregation = Aggregation(arguments, identities_in)
    table = aggregate(arguments.records, arguments.rejected, arguments.device, aggregation.used)
    write_networks_table(table, arguments.table)
    aggregation.finish(table, WRONG, "part")


if __name__ == "__main__":
    main()
