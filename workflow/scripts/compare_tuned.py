"""How far the cost model's choices are from the tuned ones, from a tuning file: two tables.

python workflow/scripts/compare_tuned.py --tuning ksmm/tuned/nvidia-h200.json --summary summary.csv \
    --problems problems.csv
"""

import argparse
from pathlib import Path

from ksmm.tuning import summary, untuned_over_tuned


def main() -> None:
    """Command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuning", type=Path, required=True, help="tuning file")
    parser.add_argument("--summary", type=Path, required=True, help="CSV file: a row for each dtype and layout")
    parser.add_argument("--problems", type=Path, required=True, help="CSV file: a row for each problem")
    arguments = parser.parse_args()
    ratios = untuned_over_tuned(arguments.tuning)
    for path, table in ((arguments.summary, summary(ratios)), (arguments.problems, ratios)):
        path.parent.mkdir(parents=True, exist_ok=True)
        table.to_csv(path, index=False, float_format="%.6g")


if __name__ == "__main__":
    main()
