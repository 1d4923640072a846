"""The cost model's choice against what tuning measured on an H200 (or H100), on a machine without a GPU.

    python benchmarks/cost_model.py benchmarks/cost_model    # compiled from cost_model.cu, which says how
    python benchmarks/cost_model.py benchmarks/cost_model --measured few_rows.csv    # of few_rows.py, instead

Tuning keeps the time of the fastest configuration and of the one that the cost model chose then. Where the present
choice is one of the two, its time over the fastest is known: `mean` and `most` are of those, `known` says how many
they are. The cost model was fitted to the same times. `strict` is float32 in multiply-adds alone. What few_rows.py
measured has the times of all configurations, of any batch.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from ksmm.tuning.entry import Entry
from ksmm.tuning.file import TuningError, read_tuning

TUNED = Path(__file__).resolve().parents[1] / "ksmm" / "tuned" / "nvidia-h200.json"


def choices(program: Path, device: str, dtype: str, layout: str, batch_size: int, patterns: list[str]) -> list[str]:
    """The name of the configuration that the cost model chooses on that device for each pattern.

    Raises:
        OSError, subprocess.CalledProcessError: the program cannot be run, or failed.
        ValueError: it wrote something else than names.
    """
    command = [str(program), device, dtype, layout, str(batch_size), *patterns]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    names = [line.split("\t")[1] for line in lines if "\t" in line]
    if len(names) != len(patterns):
        raise ValueError(
            f"{program} wrote {len(names)} lines for {len(patterns)} patterns; is it cost_model.cu, compiled?"
        )
    return names


Ratios = dict[tuple[str, str, int], dict[str, dict[str, float]]]
"""By dtype, layout and batch size, by pattern, and by configuration: its time over the fastest."""


def of_tuning(entries: list[Entry]) -> Ratios:
    """Of the two configurations that a tuning file has the time of."""
    found: Ratios = {}
    for entry in entries:
        dtype = "strict" if entry.precision == "strict" else entry.dtype
        times = {entry.untuned_configuration: entry.untuned_ms, entry.configuration: entry.configuration_ms}
        ratios = {name: time / entry.configuration_ms for name, time in times.items()}
        found.setdefault((dtype, entry.layout, entry.batch_size), {})[",".join(map(str, entry.pattern))] = ratios
    return found


def of_measured(file: Path) -> Ratios:
    """Of all that few_rows.py wrote into a file."""
    times: Ratios = {}
    with file.open(newline="") as lines:
        for row in csv.DictReader(lines):
            problems = times.setdefault((row["dtype"], row["layout"], int(row["batch_size"])), {})
            problems.setdefault(row["pattern"], {})[row["configuration"]] = float(row["time_s"])
    return {
        key: {
            pattern: {name: time / min(of_all.values()) for name, time in of_all.items()}
            for pattern, of_all in problems.items()
        }
        for key, problems in times.items()
    }


def program(name: str) -> Path:
    """The path of a program, from anywhere."""
    found = shutil.which(Path(name).resolve())
    if found is None:
        raise argparse.ArgumentTypeError(f"{name} is no program; compile it from cost_model.cu, which says how")
    return Path(found)


def main() -> None:
    """Writes CSV to the standard output, a row for each dtype, layout and batch size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=program)
    parser.add_argument("--tuning", type=Path, default=TUNED, help="whose times (those of the H200 that ship)")
    parser.add_argument("--measured", type=Path, help="what few_rows.py wrote on that device, instead")
    arguments = parser.parse_args()
    try:
        tuning = read_tuning(arguments.tuning)
        known = of_measured(arguments.measured) if arguments.measured else of_tuning(tuning.entries)
    except (TuningError, OSError) as error:
        parser.error(str(error))
    except (KeyError, ValueError) as error:
        parser.error(f"{arguments.measured} is not what few_rows.py writes: {error!r}")
    writer = csv.writer(sys.stdout)
    writer.writerow(["dtype", "layout", "batch_size", "problems", "known", "mean", "most"])
    for (dtype, layout, batch_size), problems in sorted(known.items()):
        try:
            chosen = choices(arguments.program, tuning.device, dtype, layout, batch_size, list(problems))
        except subprocess.CalledProcessError as error:
            parser.error(f"{arguments.program} failed ({error.returncode}): {error.stderr.strip()}")
        except (OSError, ValueError) as error:
            parser.error(str(error))
        ratios = [of_all[choice] for choice, of_all in zip(chosen, problems.values(), strict=True) if choice in of_all]
        numbers = [f"{statistics.mean(ratios):.3f}", f"{max(ratios):.2f}"] if ratios else ["", ""]
        writer.writerow([dtype, layout, batch_size, len(problems), len(ratios), *numbers])


if __name__ == "__main__":
    main()
