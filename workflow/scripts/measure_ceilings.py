"""Measures what a device can do at best: its copy bandwidth, and its matrix product rate per dtype.

python workflow/scripts/measure_ceilings.py --device-type cpu --dtypes float32 --record ceilings.json
"""

import argparse
import logging
from pathlib import Path

from time_patterns import stopped_in_one_line

from ksmm.cli_arguments import positive_seconds, seconds
from ksmm.measure.ceilings import measure_ceilings
from ksmm.measure.provenance import check_device
from ksmm.problem import DTYPES


def main() -> None:
    """Command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device-type", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--device", help="what the device must be, e.g. nvidia-h200; by default any is measured")
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), required=True)
    parser.add_argument("--seconds", type=positive_seconds, default=1.0, help="for how long each is tried, about")
    parser.add_argument("--record", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--busy-gpu-max-wait-s", type=seconds, default=0.0, help="wait so long for a GPU in use")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with stopped_in_one_line(arguments.record.stem):
        check_device(arguments.device_type, arguments.device)
        measure_ceilings(
            arguments.device_type,
            arguments.dtypes,
            arguments.record,
            arguments.busy_gpu_max_wait_s,
            arguments.seconds,
        )


if __name__ == "__main__":
    main()
