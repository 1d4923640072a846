"""Measures what moving a byte and doing an operation cost a device at best, in joules.

python workflow/scripts/measure_energy_ceilings.py --device-type cuda --dtypes float32 float16 --record ceilings.json
"""

import argparse
import json
import logging
from pathlib import Path

from ksmm.measure.energy_ceilings import measure_energy_ceilings
from ksmm.measure.energy_protocol import EnergyProtocol


def main() -> None:
    """Command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device-type", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--dtypes", nargs="+", required=True, help="float32, float16, bfloat16")
    parser.add_argument("--energy-protocol", type=json.loads, default={}, help='JSON, e.g. {"samples": 10}')
    parser.add_argument("--record", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    protocol = EnergyProtocol.from_mapping(arguments.energy_protocol)
    measure_energy_ceilings(arguments.device_type, arguments.dtypes, protocol, arguments.record)


if __name__ == "__main__":
    main()
