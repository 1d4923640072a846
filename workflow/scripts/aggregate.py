"""Puts records into one table, one row per measurement; lists the records that could not be used, and wrong results.

python workflow/scripts/aggregate.py --records results/cpu-x86_64/time/records/*.json \
    --ceilings results/cpu-x86_64/ceilings.json --rejected rejected --table time.csv --rejected-list rejected.csv \
    --wrong-list wrong.csv
"""

from pathlib import Path

from aggregation import Aggregation, parser

from ksmm.aggregate import aggregate
from ksmm.measure.identity import identities_in
from ksmm.table import write_table

WRONG = ["implementation", "dtype", "layout", "part"]


def main() -> None:
    """Command line of this script."""
    options = parser(__doc__, "timing jobs")
    options.add_argument("--ceilings", type=Path, help="what measure_ceilings.py wrote")
    arguments = options.parse_args()
    aggregation = Aggregation(arguments, identities_in)
    table = aggregate(arguments.records, arguments.ceilings, arguments.rejected, arguments.device, aggregation.used)
    write_table(table, arguments.table)
    aggregation.finish(table, WRONG, "pattern")


if __name__ == "__main__":
    main()
