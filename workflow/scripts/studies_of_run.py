"""Which records a study's table was made of: what publish.py copies, and why it refuses a table."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas

from ksmm.aggregate import aggregate
from ksmm.energy_aggregate import aggregate_energy
from ksmm.energy_table import read_energy_table, write_energy_table
from ksmm.networks.table import NETWORKS, read_networks_table, write_networks_table
from ksmm.networks.table import aggregate as aggregate_networks
from ksmm.resume import READERS
from ksmm.table import read_table, write_table

_PRODUCT = ("pattern", "batch_size", "dtype", "layout", "implementation", "part", "started_at")


class PublishError(RuntimeError):
    """A run that cannot be published as it is; the message says why and what to do."""


@dataclass(frozen=True)
class Study:
    """How the table of a study is made of its records.

    Attributes:
        key: what tells its measurements from each other, in records and in the table.
        made_from: what the table is made of besides records, seen from the results.
        make: records, the folder of the results, and a folder for records that cannot be used, to the table.
        read, write: of the table.
    """

    key: tuple[str, ...]
    made_from: tuple[str, ...]
    make: Callable[[Sequence[Path], Path, Path], pandas.DataFrame]
    read: Callable[[Path], pandas.DataFrame]
    write: Callable[[pandas.DataFrame, Path], None]


STUDIES = {
    "time": Study(
        key=_PRODUCT,
        made_from=("ceilings.json",),
        make=lambda records, results, rejected: aggregate(records, results / "ceilings.json", rejected),
        read=read_table,
        write=write_table,
    ),
    "energy": Study(
        key=_PRODUCT,
        made_from=("ceilings.json", "energy/ceilings.json"),
        make=lambda records, results, rejected: aggregate_energy(
            records, results / "ceilings.json", results / "energy" / "ceilings.json", rejected
        ),
        read=read_energy_table,
        write=write_energy_table,
    ),
    "networks": Study(
        key=(*NETWORKS.identity[1:], "started_at"),
        made_from=(),
        make=lambda records, results, rejected: aggregate_networks(records, rejected),
        read=read_networks_table,
        write=write_networks_table,
    ),
}


def records_of_table(study: str, device: str, results: Path) -> list[Path]:
    """The records that the table of a study was made of; none where it has no measurement of the device.

    Raises:
        PublishError: a file is missing, or these records do not give this table.
        RecordError, TableError: a record, the table cannot be used.
        OSError: a file cannot be read.
    """
    form, path = STUDIES[study], results / f"{study}.csv"
    again = f"make it again, with the config of that run: snakemake --cores all {path}"
    found = sorted((results / study / "records").glob("*.json"))
    for needed in (path, *(results / name for name in form.made_from)):
        if not needed.exists():
            raise PublishError(f"there are records in {results / study}, but no {needed}; {again}")
    table = form.read(path)
    if "source" in table:
        table = table[table["source"] != "imported"].reset_index(drop=True)
    rows = set(table[list(form.key)].itertuples(index=False, name=None))
    used = [file for file in found if _keys(READERS[study](file, device), form.key) & rows]
    odd = [file.name for file in found if file not in used]
    made = _as_read(form, form.make(used, results, results / study / "rejected"))
    if not made.equals(table):
        aside = f" ({len(odd)} others, the first {odd[0]}, have none of its measurements)" if odd else ""
        raise PublishError(f"{path} is not what its records give{aside}: {_difference(table, made)}; {again}")
    if odd:
        logging.info("%s was not made of %d records of %s; they stay behind: %s", path, len(odd), study, ", ".join(odd))
    return used


def _keys(record: dict[str, Any], names: Sequence[str]) -> set[tuple]:
    """What its measurements are known by in the table."""
    entries = [
        {**values, "pattern": ",".join(map(str, values.get("pattern", ())))} for values in record["measurements"]
    ]
    return {tuple(values[name] for name in names) for values in entries}


def _as_read(form: Study, table: pandas.DataFrame) -> pandas.DataFrame:
    """The table with its numbers rounded as in its file."""
    with tempfile.TemporaryDirectory() as folder:
        form.write(table, Path(folder) / "table.csv")
        return form.read(Path(folder) / "table.csv")


def _difference(table: pandas.DataFrame, made: pandas.DataFrame) -> str:
    """What is different in a table and what its records give, in words."""
    if len(table) != len(made):
        return f"it has {len(table)} measurements, they have {len(made)}"
    unequal = (table != made) & ~(table.isna() & made.isna())
    column = unequal.any().idxmax()
    row = unequal[column].idxmax()
    return f"in line {row + 2} {column} is {table.loc[row, column]}, of the records {made.loc[row, column]}"
