"""Measures one subject of the study networks, and writes one record.

python workflow/scripts/measure_networks.py --subject vit_submodules --size tiny --device-type cpu \
    --accuracy-classes strict --implementations kernel bmm --modes eager --record records/mine.json --journal journal

What was measured when the script was stopped is in the journal, and is not measured again by the next try.
"""

import argparse
from pathlib import Path

from time_patterns import log_scheduler, log_to, stopped_in_one_line

import ksmm
from ksmm.cli_arguments import parameters, seconds
from ksmm.measure.job import reexecute
from ksmm.measure.protocol import Protocol
from ksmm.measure.provenance import check_device
from ksmm.networks.entry import CLASSES, MODES
from ksmm.networks.job import run_job
from ksmm.networks.sizes import SIZES
from ksmm.networks.subjects import SUBJECTS, entries


def main() -> None:
    """Command line of this script."""
    arguments = parse_arguments()
    log_to(arguments.log)
    log_scheduler()
    kinds = (arguments.size, arguments.accuracy_classes, arguments.implementations, arguments.modes)
    with stopped_in_one_line(arguments.record.stem):
        check_device(arguments.device_type, arguments.device)
        run_job(
            entries(arguments.subject, *kinds),
            device_type=arguments.device_type,
            protocol=arguments.protocol,
            record=arguments.record,
            journal=arguments.journal,
            keep_journal=arguments.keep_journal,
            busy_gpu_max_wait_s=arguments.busy_gpu_max_wait_s,
            restart=reexecute,
        )


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subject", choices=list(SUBJECTS), required=True)
    parser.add_argument("--size", choices=list(SIZES), required=True, help="of the networks")
    parser.add_argument("--device-type", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--device", help="what the device must be, e.g. nvidia-h200; by default any is measured")
    parser.add_argument("--accuracy-classes", choices=list(CLASSES), nargs="+", default=["strict"])
    parser.add_argument(
        "--implementations",
        nargs="+",
        choices=["auto", *ksmm.implementations()],
        default=["kernel", "bmm"],
        help="of Kronecker-sparse layers",
    )
    parser.add_argument("--modes", choices=MODES, nargs="+", default=["eager"])
    parser.add_argument(
        "--protocol", type=parameters(Protocol.from_mapping), default=Protocol(), help='JSON, e.g. {"min_samples": 10}'
    )
    parser.add_argument("--record", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--journal", type=Path, required=True, help="folder for what is measured before the end")
    parser.add_argument("--keep-journal", action="store_true", help="leave it to aggregate_networks.py to clear it")
    parser.add_argument("--busy-gpu-max-wait-s", type=seconds, default=0.0, help="wait so long for a GPU in use")
    parser.add_argument("--log", type=Path, help="file to log to instead of stderr")
    return parser.parse_args()


if __name__ == "__main__":
    main()
