"""Measures one subject of the study networks, and writes one record.

python workflow/scripts/measure_networks.py --subject vit_submodules --size tiny --device-type cpu \
    --accuracy-classes strict --implementations kernel bmm --modes eager --record records/mine.json --journal journal

What was measured when the script was stopped is in the journal, and is not measured again by the next try.
"""

import argparse
import json
import logging
from pathlib import Path

from ksmm.measure.job import reexecute
from ksmm.measure.protocol import Protocol
from ksmm.networks.accuracy import CLASSES
from ksmm.networks.entry import MODES
from ksmm.networks.job import run_job
from ksmm.networks.sizes import SIZES
from ksmm.networks.subjects import SUBJECTS, entries


def main() -> None:
    """Command line of this script."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    arguments = parse_arguments()
    run_job(
        entries(
            arguments.subject, arguments.size, arguments.accuracy_classes, arguments.implementations, arguments.modes
        ),
        device_type=arguments.device_type,
        protocol=Protocol.from_mapping(arguments.protocol),
        record=arguments.record,
        journal=arguments.journal,
        restart=reexecute,
    )


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subject", choices=list(SUBJECTS), required=True)
    parser.add_argument("--size", choices=list(SIZES), required=True, help="of the networks")
    parser.add_argument("--device-type", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--accuracy-classes", choices=list(CLASSES), nargs="+", default=["strict"])
    parser.add_argument("--implementations", nargs="+", default=["kernel", "bmm"], help="of Kronecker-sparse layers")
    parser.add_argument("--modes", choices=MODES, nargs="+", default=["eager"])
    parser.add_argument("--protocol", type=json.loads, default={}, help='JSON, e.g. {"min_samples": 10}')
    parser.add_argument("--record", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--journal", type=Path, required=True, help="folder for what is measured before the end")
    return parser.parse_args()


if __name__ == "__main__":
    main()
