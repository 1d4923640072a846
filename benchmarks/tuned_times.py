"""What tuning measured on an H200 against the roofline and the rivals that it timed, on a machine without a GPU.

    python benchmarks/tuned_times.py

A row for each dtype, precision and layout of the tuning file that ships, medians over its problems: the kernel's best
configuration over the roofline, by the ceilings of the published run (empty for a dtype that it did not have), and the
best of `bmm` and `bmm_strided` over it.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import statistics
import sys
from pathlib import Path

from ksmm.measure.ceilings_file import read_ceilings
from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, Problem
from ksmm.tuning.file import read_tuning

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Writes CSV to the standard output."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    ceilings = read_ceilings(ROOT / "measurements/nvidia-h200/ceilings.json")
    writer = csv.writer(sys.stdout)
    writer.writerow(["dtype", "precision", "layout", "problems", "time_over_roofline", "best_rival_over_time"])
    entries = sorted(
        read_tuning(ROOT / "ksmm/tuned/nvidia-h200.json").entries, key=lambda e: (e.dtype, e.precision, e.layout)
    )
    for kind, group in itertools.groupby(entries, key=lambda e: (e.dtype, e.precision, e.layout)):
        over_roofline, rivals = [], []
        for entry in group:
            pattern = Pattern(*entry.pattern)
            problem = Problem(pattern, entry.batch_size, DTYPES[entry.dtype], entry.layout, "cuda")
            attainable = ceilings.attainable_seconds(problem)
            if attainable is not None:
                over_roofline.append(entry.configuration_ms / 1e3 / attainable)
            rivals.append(min(entry.rivals_ms.values()) / entry.configuration_ms)
        medians = (f"{statistics.median(values):.3g}" if values else "" for values in (over_roofline, rivals))
        writer.writerow([*kind, len(rivals), *medians])


if __name__ == "__main__":
    main()
