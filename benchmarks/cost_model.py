"""The cost model's choice against what tuning measured on an H200 (or H100), on a machine without a GPU.

    python benchmarks/cost_model.py benchmarks/cost_model    # compiled from cost_model.cu, which says how

Tuning keeps the time of the fastest configuration and of the one that the cost model chose then. Where the present
choice is one of the two, its time over the fastest is known: `mean` and `most` are of those, `known` says how many
they are. The cost model was fitted to the same times. `strict` is float32 in multiply-adds alone.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import subprocess
import sys
from pathlib import Path

from ksmm.tuning.entry import Entry
from ksmm.tuning.file import read_tuning

TUNED = Path(__file__).resolve().parents[1] / "ksmm" / "tuned" / "nvidia-h200.json"


def choices(program: Path, device: str, dtype: str, layout: str, entries: list[Entry]) -> list[str]:
    """The name of the configuration that the cost model chooses on that device for each entry."""
    patterns = [",".join(map(str, entry.pattern)) for entry in entries]
    command = [str(program), device, dtype, layout, str(entries[0].batch_size), *patterns]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split("\t")[1] for line in lines]


def main() -> None:
    """Writes CSV to the standard output, a row for each dtype and layout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda name: Path(name).resolve())
    parser.add_argument("--tuning", type=Path, default=TUNED, help="whose times (those of the H200 that ship)")
    arguments = parser.parse_args()
    tuning = read_tuning(arguments.tuning)
    problems: dict[tuple[str, str], list[Entry]] = {}
    for entry in tuning.entries:
        dtype = "strict" if entry.precision == "strict" else entry.dtype
        problems.setdefault((dtype, entry.layout), []).append(entry)
    writer = csv.writer(sys.stdout)
    writer.writerow(["dtype", "layout", "problems", "known", "mean", "most"])
    for (dtype, layout), entries in sorted(problems.items()):
        ratios = []
        chosen = choices(arguments.program, tuning.device, dtype, layout, entries)
        for entry, choice in zip(entries, chosen, strict=True):
            times = {entry.untuned_configuration: entry.untuned_ms, entry.configuration: entry.configuration_ms}
            if choice in times:
                ratios.append(times[choice] / entry.configuration_ms)
        writer.writerow(
            [dtype, layout, len(entries), len(ratios), f"{statistics.mean(ratios):.3f}", f"{max(ratios):.2f}"]
        )


if __name__ == "__main__":
    main()
