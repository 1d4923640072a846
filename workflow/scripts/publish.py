"""Copies what others need of a run from results/<device> to measurements/<device>: all of it, or nothing.

python workflow/scripts/publish.py --device nvidia-h200

No logs, nothing that names this machine's folders. Each study that is in the results is added to what is published of
the device; one that is published already is refused. Of its records those are copied that its table was made of: those
that another config has left beside them would be in the table that others make of them. Imported energies are rows of
energy.csv, which a redraw takes from there.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import tempfile
from pathlib import Path

from studies_of_run import STUDIES, PublishError, records_of_table

from ksmm.measure.records import RecordError
from ksmm.table import TableError

MADE = ("left_out.csv", "notebooks", "counters.csv", "tuning.json", "tuned_against_untuned.csv")
DRAWN = ("figures", "tables")


def publish(device: str, results: Path, published: Path) -> bool:
    """Checks everything, copies to a folder beside, and puts that in the place of what was published.

    Args:
        device: the slug that the records are of.
        results: its folder of results.
        published: its folder of published measurements, which there need not be.

    Returns:
        Whether figures and tables were copied, too: not where some are published, which show other studies, or what
        was there before.

    Raises:
        PublishError: there is no run, a study is published already, a table was not made of its records, or a file
            names a folder of this machine.
        RecordError, TableError: a record, a table cannot be used.
        OSError: a file cannot be read or copied; what was published is as it was.
    """
    bring_back(published)
    there = [study for study in STUDIES if (results / study / "records").is_dir()]
    if not there:
        raise PublishError(f"no run in {results}; name one: make publish DEVICE=...")
    records = {study: files for study in there if (files := records_of_table(study, device, results))}
    if not records:
        raise PublishError(f"the tables in {results} have no measurements; make them again: make figures")
    for study in records:
        if (published / study).exists():
            raise PublishError(f"{published / study} is there already; move it away first, or remove {results / study}")
    drawn = not (published / "figures").exists()
    published.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=published.parent, prefix=".publishing-") as folder:
        whole = Path(folder) / device
        if published.exists():
            shutil.copytree(published, whole)
        copy_studies(records, results, whole)
        copy_others([*MADE, *(DRAWN if drawn else ())], results, whole, left_out(results))
        check_no_folder(whole, results.absolute().parent)
        put_in_place(whole, published)
    return drawn


def copy_studies(records: dict[str, list[Path]], results: Path, target: Path) -> None:
    """Copies the records of each study, its tables, and what these are made of."""
    for study, files in records.items():
        (target / study / "records").mkdir(parents=True)
        for file in files:
            shutil.copy(file, target / study / "records")
        for table in results.glob("networks*.csv" if study == "networks" else f"{study}.csv"):
            shutil.copy(table, target)
        for name in STUDIES[study].made_from:
            # published energies are beside the ceilings of the times
            if study == "time" or not (target / name).exists():
                shutil.copy(results / name, target / name)
        logging.info("%s: %d records", study, len(files))


def left_out(results: Path) -> list[str]:
    """Patterns of files that are no part of the run: notebooks that failed, and what an earlier config had drawn."""
    plan = results / "figures.json"
    entries = json.loads(plan.read_text(encoding="utf-8")) if plan.exists() else {}
    return ["*.failed.ipynb", *(f"{name}.*" for name, entry in entries.items() if entry["missing"] is not None)]


def copy_others(names: list[str], results: Path, target: Path, unwanted: list[str]) -> None:
    """Copies those of the files and folders that there are, but for files of these patterns."""
    for name in names:
        if (results / name).is_dir():
            shutil.copytree(results / name, target / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*unwanted))
        elif (results / name).exists():
            shutil.copy(results / name, target)


def check_no_folder(whole: Path, folder: Path) -> None:
    """Raises PublishError if a file names that folder of this machine."""
    for file in sorted(whole.rglob("*")):
        if file.is_file() and os.fsencode(folder) in file.read_bytes():
            name = file.relative_to(whole)
            raise PublishError(f"{name} names {folder}, a folder of this machine; make that file again: make figures")


def out_of_the_way(published: Path) -> Path:
    """Where what was published is while the new folder takes its place."""
    return published.with_name(f".{published.name}.before")


def bring_back(published: Path) -> None:
    """Puts back what a publishing that was killed left out of its place.

    Raises:
        PublishError: something stands in that place; nobody but its owner knows which of them is wanted.
    """
    before = out_of_the_way(published)
    if before.exists() and published.exists():
        raise PublishError(
            f"{before} is there beside {published}: what was published before, left when publishing was killed at its "
            "last step; compare them, and remove the one that is not wanted"
        )
    if before.exists():
        before.rename(published)


def put_in_place(whole: Path, published: Path) -> None:
    """Renames `whole` to `published`; what was there is out of its way first, and removed last."""
    before = out_of_the_way(published)
    if published.exists():
        published.rename(before)
    try:
        whole.rename(published)
    except OSError:
        if before.exists():
            before.rename(published)
        raise
    shutil.rmtree(before, ignore_errors=True)


def main() -> None:
    """Command line of this script; exit status 2 where nothing is published."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", required=True, help="the name of its folder in results/, e.g. nvidia-h200")
    device = parser.parse_args().device
    if Path(device).name != device:
        parser.exit(2, f"the device is {device!r}; name a folder in results/: make publish DEVICE=...\n")
    results, published = Path("results", device), Path("measurements", device)
    try:
        drawn = publish(device, results, published)
    except (PublishError, RecordError, TableError, OSError) as error:
        parser.exit(2, f"{error}\n")
    if not drawn:
        redrawn = Path("results", "redrawn")
        made = [name for name in (*DRAWN, "energy.csv") if (published / name).exists()]
        logging.info("the published figures are of other studies, too, or of before; now draw all of them together:")
        logging.info("make figures DEVICE=%s RESULTS=%s", device, redrawn)
        logging.info("cp -R %s %s/", " ".join(str(redrawn / device / name) for name in made), published)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("ksmm").setLevel(logging.WARNING)  # what aggregating says was said when the run did it
    main()
