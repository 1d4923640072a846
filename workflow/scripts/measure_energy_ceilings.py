"""Measures what moving a byte and doing an operation cost a device at best, in joules.

python workflow/scripts/measure_energy_ceilings.py --device-type cuda --dtypes float32 float16 --record ceilings.json
"""

import argparse
import logging
from pathlib import Path

from time_patterns import stopped_in_one_line

from ksmm.cli_arguments import parameters, seconds
from ksmm.measure.energy_ceilings import measure_energy_ceilings
from ksmm.measure.energy_counter import CounterError
from ksmm.measure.energy_protocol import EnergyProtocol
from ksmm.measure.provenance import check_device
from ksmm.problem import DTYPES


def main() -> None:
    """Command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device-type", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--device", help="what the device must be, e.g. nvidia-h200; by default any is measured")
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), required=True)
    parser.add_argument(
        "--energy-protocol",
        type=parameters(EnergyProtocol.from_mapping),
        default=EnergyProtocol(),
        help='JSON, e.g. {"samples": 10}',
    )
    parser.add_argument("--record", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--busy-gpu-max-wait-s", type=seconds, default=0.0, help="wait so long for a GPU in use")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    wait_s = arguments.busy_gpu_max_wait_s
    try:
        with stopped_in_one_line(arguments.record.stem):
            check_device(arguments.device_type, arguments.device)
            measure_energy_ceilings(
                arguments.device_type, arguments.dtypes, arguments.energy_protocol, arguments.record, wait_s
            )
    except CounterError as error:
        raise SystemExit(f"error: {error}; no energy ceilings were written, run this again") from None


if __name__ == "__main__":
    main()
