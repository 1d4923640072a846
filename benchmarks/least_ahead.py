"""Where the kernel is least ahead of the others in a run, and where it is behind.

    python benchmarks/least_ahead.py measurements/nvidia-h200/time.csv
    python benchmarks/least_ahead.py measurements/nvidia-h200/time.csv --implementation kernel_strict --most 10

For each dtype and layout the patterns with the least ratio of the fastest other implementation's time to the kernel's:
below 1 it is slower. Once by launches, and once (in_graphs) with the times of products replayed from CUDA graphs in the
place of those of launches where there are some, which is for short products.
`kernel` and `kernel_strict` are not compared with each other.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas

from ksmm.cli_arguments import integer_from
from ksmm.table import read_table

OURS = ("kernel", "kernel_strict")
BY = ["dtype", "layout", "pattern"]


def ahead(table: pandas.DataFrame, ours: str, in_graphs: bool) -> pandas.DataFrame:
    """A row for each problem: the fastest of the others, their time over that of `ours`, and the latter in µs."""
    whole = table[(table.part == "whole") & (table.status == "ok")]
    seconds = whole.cuda_graph_median_s.fillna(whole.median_s) if in_graphs else whole.median_s
    times = whole.assign(seconds=seconds).pivot_table(index=BY, columns="implementation", values="seconds")
    others = times.drop(columns=[name for name in OURS if name in times]).dropna(how="all")
    of_ours = times[ours].dropna()
    others = others.loc[others.index.intersection(of_ours.index)]
    of_ours = of_ours[others.index]
    found = {"in_graphs": "yes" if in_graphs else "no", "rival": others.idxmin(axis=1)}
    return pandas.DataFrame({**found, "rival_over_ours": others.min(axis=1) / of_ours, "microseconds": of_ours * 1e6})


def main() -> None:
    """Writes CSV to the standard output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, help="results/<device>/time.csv, of one device and batch size")
    parser.add_argument("--implementation", default="kernel", choices=OURS)
    parser.add_argument("--most", type=integer_from(0), default=4, help="patterns of each, besides those behind (4)")
    arguments = parser.parse_args()
    try:
        table = read_table(arguments.table)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    for name in ("device", "batch_size"):
        if table[name].nunique() > 1:
            parser.error(f"{arguments.table} has more than one {name}: {', '.join(map(str, table[name].unique()))}")
    if arguments.implementation not in set(table[table.status == "ok"].implementation):
        parser.error(f"{arguments.implementation} has no time in {arguments.table}")
    rows = pandas.concat([ahead(table, arguments.implementation, in_graphs) for in_graphs in (False, True)])
    rows = rows.reset_index().sort_values(["dtype", "layout", "in_graphs", "rival_over_ours"])
    place = rows.groupby(["dtype", "layout", "in_graphs"]).cumcount()
    rows[(place < arguments.most) | (rows.rival_over_ours < 1)].to_csv(sys.stdout, index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
