"""What every figure and table script shares: the command line, and captions' account of the conditions.

A new figure is a new file fig*.py in this folder, a new table a new file table*.py; the plan finds it by its
being there. It has TITLE, caption(table), missing(table) (None, or why the table cannot give it) and
draw(table, output), and ends in main(__name__). It reads time.csv, or the table of the study that its STUDY names
("energy", "networks"). What is drawn from another file (tuned*.py, counters*.py) has the same four, gives main its
Source, and has a rule of its own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pandas as pd
import style
from ratios import PROBLEM, listed

from ksmm.energy_table import read_energy_table
from ksmm.names import DTYPE_NAMES
from ksmm.networks.table import read_networks_table
from ksmm.table import read_table

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Source:
    """The file that a script draws from: its option on the command line, what it is, and how it is read."""

    option: str
    help: str
    read: Callable[[Path], pd.DataFrame]


TABLES = {
    "time": Source("--table", "the measurements, results/<device>/time.csv", read_table),
    "energy": Source("--table", "the energies, results/<device>/energy.csv", read_energy_table),
    "networks": Source("--table", "the measurements of networks, results/<device>/networks.csv", read_networks_table),
}
"""By study: what a script's STUDY may name; one without it reads that of time."""


def study_of(module: ModuleType) -> str:
    """The study whose table a script reads."""
    return getattr(module, "STUDY", "time")


def of_one_device(table: pd.DataFrame, study: str, way_out: str = "give the table of one of them") -> pd.DataFrame:
    """The table, if its rows are of one device: no time of one stands for another's.

    The table of energies may have several; its figures tell them apart (the authors' are there, too).

    Raises:
        ValueError: they are of several.
    """
    devices = sorted(table.device.unique())
    if len(devices) > 1 and study != "energy":
        raise ValueError(f"the table has measurements of {listed(devices)}, which are not to be mixed; {way_out}")
    return table


def main(module_name: str, source: Source | None = None) -> None:
    """Draws one figure or table from the command line; exits with status 1 and the reason if the table lacks it."""
    module = sys.modules[module_name]
    source = source or TABLES[study_of(module)]
    parser = argparse.ArgumentParser(description=module.TITLE)
    parser.add_argument(source.option, dest="source", type=Path, required=True, help=source.help)
    parser.add_argument("--output", type=Path, required=True, help="folder to write to")
    arguments = parser.parse_args()
    try:
        table = source.read(arguments.source)
        if source in TABLES.values():
            of_one_device(table, study_of(module))
            style.introduce(table.implementation)
        reason = module.missing(table)
        if reason is None:
            module.draw(table, arguments.output)
    except (OSError, ValueError) as error:
        reason = str(error)
    if reason is not None:
        sys.exit(f"{Path(module.__file__).stem}: {reason}")


def conditions(table: pd.DataFrame, dtypes: str | Collection[str] | None, *problems: pd.Index) -> str:
    """Under what conditions the values of a figure were measured: "NVIDIA H200, 41 patterns, batch 25,088, float32."

    If the protocol's samples and runs did not fit into its time, it also says for how many measurements.

    Args:
        table: rows of time.csv or energy.csv.
        dtypes: one or several, the latter also as "float32 and float16"; None if the figure names its dtypes itself.
        problems: (pattern, batch size) of every value drawn.
    """
    names = table.device_name.where(table.device_name != "", table.device)
    number = len({pattern for index in problems for pattern in index.get_level_values("pattern")})
    sizes = {size for index in problems for size in index.get_level_values("batch_size")}
    patterns = "1 pattern" if number == 1 else f"{number:,} patterns"
    parts = [listed(names.unique()), patterns, f"batch {listed(f'{size:,}' for size in sorted(sizes))}"]
    drawn = table.set_index(PROBLEM).index.isin({problem for index in problems for problem in index})
    if dtypes:
        chosen = dtypes.split(" and ") if isinstance(dtypes, str) else dtypes
        parts.append(listed(sorted(chosen, key=DTYPE_NAMES.index)))
        drawn &= table.dtype.isin(chosen)
    return sentences(f"{', '.join(parts)}.", shortened(table[drawn]))


def on_gpu(table: pd.DataFrame) -> bool:
    """Whether the measurements are of a GPU: CPUs have slugs like cpu-x86_64."""
    return not table.device.str.startswith("cpu-").any()


def shortened(rows: pd.DataFrame) -> str:
    """How many of the measurements have fewer samples or runs than the protocol asks for; empty if none."""
    timed = rows[rows.status == "ok"]
    number = int((timed.protocol_met == "no").sum())
    return f"{number:,} of {len(timed):,} measurements are shorter than the protocol asks for." if number else ""


def sentences(*parts: str) -> str:
    """The parts that are not empty, as one paragraph."""
    return " ".join(part for part in parts if part)
