"""Profiles whole networks kernel by kernel, dense and Kronecker-sparse: one CSV row for each kernel.

python workflow/scripts/profile_networks.py --size tiny --device-type cpu --accuracy-classes strict \
    --implementation kernel --output networks_profile.csv
"""

import argparse
import csv
import io
import logging
from pathlib import Path

from ksmm.measure import provenance
from ksmm.measure.files import write_atomically
from ksmm.measure.lock import device_lock
from ksmm.measure.protocol import Protocol
from ksmm.networks.accuracy import CLASSES
from ksmm.networks.profile import COLUMNS, profile, profiled_entries
from ksmm.networks.sizes import SIZES


def main() -> None:
    """Command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=list(SIZES), required=True, help="of the networks")
    parser.add_argument("--device-type", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--accuracy-classes", choices=list(CLASSES), nargs="+", default=["strict"])
    parser.add_argument("--implementation", default="kernel", help="of Kronecker-sparse layers")
    parser.add_argument("--output", type=Path, required=True, help="CSV file to write")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    with device_lock(arguments.device_type):
        device = provenance.device_slug(arguments.device_type)
        for entry in profiled_entries(arguments.size, arguments.accuracy_classes, arguments.implementation):
            logging.info("%s", entry)
            for row in profile(entry, Protocol(), arguments.device_type):
                numbers = {name: f"{value:.6g}" for name, value in row.items() if isinstance(value, float)}
                writer.writerow({"device": device} | row | numbers)
    write_atomically(arguments.output, text.getvalue())


if __name__ == "__main__":
    main()
