"""Measures the energy of every implementation, layout and dtype on some patterns, and writes one record.

python workflow/scripts/energy_patterns.py --patterns 1,192,48,2 --device-type cuda --batch-size 25088 \
    --dtypes float32 float16 --record records/mine.json --journal journal

As time_patterns.py, and with the same options; each measurement also has the time and the power of the same windows.
Where the device has no energy counter, all of them are skipped at once, for that reason.
"""

import argparse

import time_patterns

from ksmm.cli_arguments import parameters
from ksmm.measure.energy_protocol import EnergyProtocol
from ksmm.measure.energy_study import EnergyStudy


def main() -> None:
    """Command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    time_patterns.add_arguments(parser)
    parser.add_argument(
        "--energy-protocol",
        type=parameters(EnergyProtocol.from_mapping),
        default=EnergyProtocol(),
        help='JSON, e.g. {"samples": 10}',
    )
    arguments = parser.parse_args()
    time_patterns.run(arguments, EnergyStudy(arguments.protocol, arguments.energy_protocol))


if __name__ == "__main__":
    main()
