"""Tunes the kernel on a list of patterns, and writes a tuning file.

python workflow/scripts/tune_kernel.py --patterns 1,192,48,2 6,64,64,1 --device-type cuda --batch-sizes 25088 \
    --dtypes float16 --max-seconds 600 --journal measured.json --output nvidia-h200.json

The journal is a tuning file that outlives a run that is stopped; the next one measures only what it lacks. At the end
it is copied to the output. What there was no time for is left to another run with the same journal.
"""

import argparse
import logging
from pathlib import Path

from time_patterns import stopped_in_one_line

import ksmm
from ksmm.cli_arguments import parameters, parsed_pattern, positive_integer, seconds
from ksmm.measure.bench import PoisonedDeviceError
from ksmm.measure.job import reexecute
from ksmm.measure.protocol import Protocol
from ksmm.measure.provenance import check_device
from ksmm.problem import DTYPES
from ksmm.tuning.contest import NothingToTuneError
from ksmm.tuning.file import TuningError, read_tuning, write_tuning
from ksmm.tuning.tasks import list_tasks
from ksmm.tuning.tuner import tune


def main() -> None:
    """Command line of this script."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    arguments = parse_arguments()
    tasks = list_tasks(
        arguments.patterns, arguments.device_type, arguments.batch_sizes, arguments.dtypes, arguments.layouts
    )
    with stopped_in_one_line("tune_kernel", NothingToTuneError, TuningError):
        check_device(arguments.device_type, arguments.device)
        try:
            outcome = tune(
                tasks,
                arguments.journal,
                protocol=arguments.protocol,
                max_seconds=arguments.max_seconds,
                busy_gpu_max_wait_s=arguments.busy_gpu_max_wait_s,
                restart=reexecute,
            )
        except PoisonedDeviceError:
            reexecute()
        logging.info("%s", outcome)
        if not arguments.journal.exists():
            raise NothingToTuneError("none of the problems could be tuned; the log says of each why")
        write_tuning(arguments.output, read_tuning(arguments.journal))


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patterns", type=parsed_pattern, nargs="+", required=True, help="a,b,c,d ...")
    parser.add_argument("--device-type", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--device", help="what the device must be, e.g. nvidia-h200; by default any is measured")
    parser.add_argument("--batch-sizes", type=positive_integer, nargs="+", required=True)
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), default=["float32"])
    parser.add_argument("--layouts", nargs="+", choices=ksmm.LAYOUTS, default=list(ksmm.LAYOUTS))
    parser.add_argument(
        "--protocol", type=parameters(Protocol.from_mapping), default=Protocol(), help='JSON, e.g. {"min_samples": 10}'
    )
    parser.add_argument("--max-seconds", type=seconds, default=float("inf"), help="begin no problem later")
    parser.add_argument("--busy-gpu-max-wait-s", type=seconds, default=0.0, help="wait so long for a GPU in use")
    parser.add_argument("--journal", type=Path, required=True, help="tuning file that outlives a run that is stopped")
    parser.add_argument("--output", type=Path, required=True, help="tuning file to write at the end")
    return parser.parse_args()


if __name__ == "__main__":
    main()
