"""Profiles whole networks kernel by kernel, dense and Kronecker-sparse: one CSV row for each kernel.

python workflow/scripts/profile_networks.py --size tiny --device-type cpu --accuracy-classes strict \
    --implementation kernel --output networks_profile.csv

What was profiled when the script was stopped is in the journal, and is not profiled again by the next try.
"""

import argparse
import csv
import io
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from time_patterns import stopped_in_one_line

import ksmm
from ksmm.cli_arguments import parameters, seconds
from ksmm.measure import provenance
from ksmm.measure.attempt import Attempts
from ksmm.measure.files import prepare_folder, write_atomically
from ksmm.measure.job import deadline_seconds, reexecute
from ksmm.measure.journal import Journal
from ksmm.measure.protocol import Protocol
from ksmm.measure.recording import recording
from ksmm.networks.entry import CLASSES, Entry
from ksmm.networks.identity import identity_of
from ksmm.networks.profile import COLUMNS, Profile, profile, profiled_entries, unprofiled
from ksmm.networks.sizes import SIZES


def main() -> None:
    """Command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=list(SIZES), required=True, help="of the networks")
    parser.add_argument("--device-type", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--accuracy-classes", choices=list(CLASSES), nargs="+", default=["strict"])
    parser.add_argument(
        "--implementation",
        choices=["auto", *ksmm.implementations()],
        default="kernel",
        help="of Kronecker-sparse layers",
    )
    parser.add_argument(
        "--protocol",
        type=parameters(Protocol.from_mapping),
        default=Protocol(),
        help='of whole passes: JSON, {"max_seconds": 3}',
    )
    parser.add_argument("--device", help="what the device must be, e.g. nvidia-h200; by default any is measured")
    parser.add_argument("--busy-gpu-max-wait-s", type=seconds, default=0.0, help="wait so long for a GPU in use")
    parser.add_argument("--output", type=Path, required=True, help="CSV file to write")
    parser.add_argument("--journal", type=Path, help="folder for what is profiled before the end (beside the output)")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with stopped_in_one_line("profile_networks"):
        provenance.check_device(arguments.device_type, arguments.device)
        profile_all(arguments)


def profile_all(arguments: argparse.Namespace) -> None:
    """Profiles all networks with the device locked, and writes the table."""
    protocol = arguments.protocol
    entries = profiled_entries(arguments.size, arguments.accuracy_classes, arguments.implementation)
    journal = Journal(arguments.journal or arguments.output.with_suffix(".journal"), Profile)
    prepare_folder(journal.folder)
    attempts = Attempts(journal, deadline_seconds(protocol), reexecute)
    waits = arguments.busy_gpu_max_wait_s
    with recording("profile_networks", arguments.device_type, protocol.to_dict(), waits) as content:
        identities = [identity_of(entry, content) | {"study": "networks_profile"} for entry in entries]
        rows = [
            row
            for entry, identity in zip(entries, identities, strict=True)
            for row in _found_or_profiled(entry, identity, protocol, arguments.device_type, attempts).rows
        ]
    write_atomically(arguments.output, _csv(rows, content["device"]["slug"]))
    journal.remove(identities)


def _found_or_profiled(
    entry: Entry, identity: dict[str, Any], protocol: Protocol, device_type: str, attempts: Attempts
) -> Profile:
    found = attempts.find(identity)
    if found is not None:
        logging.info("%s: profiled before", entry)
        return found
    logging.info("%s", entry)
    return attempts.make(
        entry,
        identity,
        lambda: Profile(profile(entry, protocol, device_type)),
        lambda status, reason: unprofiled(entry, status, reason),
    )


def _csv(rows: Iterable[dict[str, Any]], device: str) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    for row in rows:
        numbers = {name: f"{value:.6g}" for name, value in row.items() if isinstance(value, float)}
        writer.writerow({"device": device} | row | numbers)
    return text.getvalue()


if __name__ == "__main__":
    main()
