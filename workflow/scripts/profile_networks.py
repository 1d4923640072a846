"""Profiles whole networks kernel by kernel, dense and Kronecker-sparse: one CSV row for each kernel.

python workflow/scripts/profile_networks.py --size tiny --device-type cpu --accuracy-classes strict \
    --implementation kernel --output networks_profile.csv
"""

import argparse
import csv
import io
import json
import logging
import sys
from pathlib import Path

from ksmm.measure import provenance
from ksmm.measure.files import write_atomically
from ksmm.measure.idle import wait_until_idle
from ksmm.measure.lock import DeviceAbsentError, device_lock
from ksmm.measure.protocol import Protocol
from ksmm.networks.entry import CLASSES
from ksmm.networks.profile import COLUMNS, profile, profiled_entries
from ksmm.networks.sizes import SIZES


def main() -> None:
    """Command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=list(SIZES), required=True, help="of the networks")
    parser.add_argument("--device-type", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--accuracy-classes", choices=list(CLASSES), nargs="+", default=["strict"])
    parser.add_argument("--implementation", default="kernel", help="of Kronecker-sparse layers")
    parser.add_argument("--protocol", type=json.loads, default={}, help='of whole passes: JSON, {"max_seconds": 3}')
    parser.add_argument("--device", help="what the device must be, e.g. nvidia-h200; by default any is measured")
    parser.add_argument("--busy-gpu-max-wait-s", type=float, default=0.0, help="wait so long for a GPU in use")
    parser.add_argument("--output", type=Path, required=True, help="CSV file to write")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        text = profiles(arguments)
    except DeviceAbsentError as error:
        sys.exit(f"profile_networks: {error}")
    write_atomically(arguments.output, text)


def profiles(arguments: argparse.Namespace) -> str:
    """The rows of all networks, as CSV, measured with the device locked."""
    protocol = Protocol.from_mapping(arguments.protocol)
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    with device_lock(arguments.device_type) as locked:
        provenance.check_device(arguments.device_type, arguments.device)
        device = provenance.device_slug(arguments.device_type)
        wait_until_idle(locked, arguments.busy_gpu_max_wait_s)
        for entry in profiled_entries(arguments.size, arguments.accuracy_classes, arguments.implementation):
            logging.info("%s", entry)
            for row in profile(entry, protocol, arguments.device_type):
                numbers = {name: f"{value:.6g}" for name, value in row.items() if isinstance(value, float)}
                writer.writerow({"device": device} | row | numbers)
    return text.getvalue()


if __name__ == "__main__":
    main()
