"""Times every implementation, layout and dtype on some patterns, and writes one record.

python workflow/scripts/time_patterns.py --patterns 1,192,48,2 6,64,64,1 --device-type cpu --batch-size 512 \
    --dtypes float32 --record records/mine.json --journal journal

What was measured when the script was stopped is in the journal, and is not measured again by the next try.
With --jobs, one line on stderr says how far the run is; every measurement is logged to the file --log, or to stderr.
"""

import argparse
import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import ksmm
from ksmm.cli_arguments import parameters, parsed_pattern, positive_integer, seconds
from ksmm.measure.job import reexecute, run_job
from ksmm.measure.lock import DeviceAbsentError
from ksmm.measure.measurement import utc_now
from ksmm.measure.progress import progress_line
from ksmm.measure.protocol import Protocol
from ksmm.measure.provenance import check_device
from ksmm.measure.study import Study
from ksmm.problem import DTYPES


def main() -> None:
    """Command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    arguments = parser.parse_args()
    run(arguments, Study(arguments.protocol))


def run(arguments: argparse.Namespace, study: Study) -> None:
    """Runs the job that the command line asks for; starts itself again after an error that poisons the process."""
    log_to(arguments.log)
    log_scheduler()
    if arguments.jobs:
        settings = {
            "protocol": study.protocol_values(),
            "batch_size": arguments.batch_size,
            "dtypes": set(arguments.dtypes),
        }
        line = progress_line(arguments.record.parent, arguments.jobs, arguments.record.stem, settings)
        sys.stderr.write(f"{line}\n")
    names = list(ksmm.implementations()) if arguments.implementations == ["all"] else arguments.implementations
    with stopped_in_one_line(arguments.record.stem):
        check_device(arguments.device_type, arguments.device)
        run_job(
            arguments.patterns,
            device_type=arguments.device_type,
            batch_size=arguments.batch_size,
            dtypes=arguments.dtypes,
            layouts=arguments.layouts,
            implementations=names,
            protocol=study.protocol,
            record=arguments.record,
            journal=arguments.journal,
            study=study,
            keep_journal=arguments.keep_journal,
            busy_gpu_max_wait_s=arguments.busy_gpu_max_wait_s,
            restart=reexecute,
        )


@contextlib.contextmanager
def stopped_in_one_line(job: str, *others: type[Exception]) -> Iterator[None]:
    """Ends the process with one line for what is no fault of the program's: what was measured before is kept.

    Args:
        job: its name.
        others: what is no fault of the program's, either, in this job.
    """
    try:
        yield
    except (OSError, DeviceAbsentError, *others) as error:  # a full disk, a GPU that is gone, or not that of this run
        logging.error("%s stopped: %s", job, error)
        sys.exit(1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that every job has."""
    parser.add_argument("--patterns", type=parsed_pattern, nargs="+", required=True, help="a,b,c,d ...")
    parser.add_argument("--device-type", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--device", help="what the device must be, e.g. nvidia-h200; by default any is measured")
    parser.add_argument("--batch-size", type=positive_integer, required=True)
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), default=["float32"])
    parser.add_argument("--layouts", nargs="+", choices=ksmm.LAYOUTS, default=list(ksmm.LAYOUTS))
    parser.add_argument("--implementations", nargs="+", choices=["all", *ksmm.implementations()], default=["all"])
    parser.add_argument(
        "--protocol", type=parameters(Protocol.from_mapping), default=Protocol(), help='JSON, e.g. {"min_samples": 10}'
    )
    parser.add_argument("--record", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--journal", type=Path, required=True, help="folder for what is measured before the end")
    parser.add_argument("--keep-journal", action="store_true", help="leave it to aggregate.py to clear the journal")
    parser.add_argument("--busy-gpu-max-wait-s", type=seconds, default=0.0, help="wait so long for a GPU in use")
    parser.add_argument("--jobs", type=positive_integer, help="number of jobs whose records go to the same folder")
    parser.add_argument("--log", type=Path, help="file to log to instead of stderr")


def log_scheduler() -> None:
    """Logs which Slurm job this is and which GPUs it was given, so that the log can be held against the scheduler's."""
    if "SLURM_JOB_ID" in os.environ:
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "none")
        logging.info("Slurm job %s, CUDA_VISIBLE_DEVICES %s", os.environ["SLURM_JOB_ID"], gpus)


def log_to(path: Path | None) -> None:
    """Sends the log to the file, warnings to stderr too; without a file, everything to stderr."""
    logging.raiseExceptions = False  # a log on a full disk must not bury the message that the disk is full
    stderr = logging.StreamHandler()
    handlers: list[logging.Handler] = [stderr]
    if path is not None:
        stderr.setLevel(logging.WARNING)
        path.parent.mkdir(parents=True, exist_ok=True)
        # appended to: a job that starts itself again, or that a run which was killed left behind, writes there, too
        handlers.append(logging.FileHandler(path, encoding="utf-8"))
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=handlers)
    logging.info("process %d, %s", os.getpid(), utc_now())


if __name__ == "__main__":
    main()
