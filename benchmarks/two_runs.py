"""Two published runs: what products take in one of the time that they take in the other.

    git worktree add --detach ../before 0dd1e66
    python benchmarks/two_runs.py ../before/measurements/nvidia-h200 measurements/nvidia-h200
    python benchmarks/two_runs.py ../before/measurements/nvidia-h200 measurements/nvidia-h200 --by dtype b c \\
        --where "implementation == 'kernel' and layout == 'batch_last' and configuration != configuration_before"

A row for each group of products: how many, the median of second over first, product by product, and its 10th and 90th
percentile. Runs are of other GPUs, whose copies differ by up to 1 % and whose products at the power limit by up to 10.
A run is a folder with time.csv and, for the names of configurations, time/records.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas

from ksmm.cli_arguments import seconds
from ksmm.measure.records import load_json
from ksmm.problem import DTYPES
from ksmm.table import read_table

KEY = ["pattern", "batch_size", "dtype", "layout", "implementation"]
BY = ["dtype", "layout", "implementation"]


def read_run(folder: Path) -> pandas.DataFrame:
    """The products that have a time, by KEY: median_s and `configuration`, empty where no record names one.

    Raises:
        ValueError: the folder has no time.csv that can be read.
    """
    if not (folder / "time.csv").is_file():
        raise ValueError(f"{folder / 'time.csv'} is not there; name the folder of a run, such as measurements/<device>")
    table = read_table(folder / "time.csv").query("part == 'whole' and status == 'ok'").set_index(KEY)
    names = {}
    for path in sorted((folder / "time" / "records").glob("*.json")):
        for row in load_json(path)["measurements"]:
            pattern = ",".join(map(str, row["pattern"]))
            names[pattern, *(row[name] for name in KEY[1:])] = row.get("configuration", "")
    return table.assign(configuration=[names.get(key, "") for key in table.index])


def compared(first: Path, second: Path, above: float) -> pandas.DataFrame:
    """A row for each product that both runs have, of more than so many seconds in the second.

    Columns, beside those of time.csv: configuration, configuration_before, mebibytes (X and Y) and ratio.
    """
    before = read_run(first)[["median_s", "configuration"]].add_suffix("_before")
    both = read_run(second).query("median_s > @above").join(before, how="inner").reset_index()
    sizes = both.dtype.map({name: dtype.itemsize for name, dtype in DTYPES.items()})
    both["mebibytes"] = both.a * both.d * (both.b + both.c) * both.batch_size * sizes / 2**20
    return both.assign(ratio=both.median_s / both.median_s_before)


def fulfilled(condition: str, both: pandas.DataFrame) -> pandas.Series:
    """Of which products a condition is true.

    Raises:
        ValueError: it is none.
    """
    try:
        found = both.eval(condition)
    except Exception as error:  # pandas and Python have many kinds for what is no condition
        raise ValueError(f"--where {condition!r} is not what pandas' query takes: {error}") from error
    if not isinstance(found, pandas.Series) or found.dtype != bool:
        raise ValueError(f"--where {condition!r} is neither true nor false of a product; write, say, c == 384")
    return found


def main() -> None:
    """Writes CSV to the standard output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path, help="the folder of a run")
    parser.add_argument("second", type=Path, help="that of another")
    parser.add_argument("--by", nargs="+", default=BY, help="columns of time.csv, or configuration")
    parser.add_argument("--where", help="the products that count, as pandas' query takes it")
    parser.add_argument(
        "--above", type=seconds, default=4e-5, help="seconds; shorter products wait for the host (4e-5)"
    )
    arguments = parser.parse_args()
    try:
        both = compared(arguments.first, arguments.second, arguments.above)
        counted = both[fulfilled(arguments.where, both)] if arguments.where else both
    except ValueError as error:
        parser.error(str(error))
    if unknown := [name for name in arguments.by if name not in both]:
        parser.error(f"--by takes {', '.join(both.columns)}, not {', '.join(unknown)}")
    groups = counted.groupby(arguments.by).ratio
    columns = {"products": groups.size(), "median": groups.median()}
    columns |= {"tenth": groups.quantile(0.1), "ninetieth": groups.quantile(0.9)}
    pandas.DataFrame(columns).to_csv(sys.stdout, float_format="%.4g")


if __name__ == "__main__":
    main()
