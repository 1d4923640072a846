"""compute-sanitizer on every configuration of the CUDA kernel, each in a process of its own, several side by side:

    python tests/cuda/sanitize_each.py memcheck.csv --tool memcheck --products 2
    python tests/cuda/sanitize_each.py racecheck.csv --tool racecheck --products 1
    python tests/cuda/sanitize_each.py tiles.csv --tool racecheck --products 1 --many-tiles
    python tests/cuda/sanitize_each.py initcheck.csv --tool initcheck --products 1

A line of the file for each configuration, as soon as it is known: what the tool said, after how many products, in how
many seconds. What the file has already is not run again; what it lacks is counted at the end. Exit status 1 where there
is an error or a wrong product, also of an earlier call; a configuration that did not end in time is no error, and is in
the file as such.
"""

from __future__ import annotations

import argparse
import collections
import csv
import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from ksmm import Pattern
from ksmm.problem import DTYPES, LAYOUTS, Problem
from tests.cuda.sanitize import MANY_TILES, ORDERS, PATTERNS, numbers_of, problems, reason_missing, unfilled

SCRIPT = Path(__file__).with_name("sanitize.py")
COLUMNS = ("configuration", "tool", "result", "products", "seconds", "said")
ERRORS = 9
"""What compute-sanitizer exits with where it finds some."""
RESULTS = {0: "no errors", 1: "a wrong product", ERRORS: "errors"}
"""By exit status, which else is sanitize.py's own."""
CLEAN = re.compile(r"SUMMARY: 0 (errors|hazards)")
"""What the tool must say beside that: hazards that it calls warnings do not change its exit status."""
OPTIONS = {"initcheck": ["--check-api-memory-access", "no"]}
"""By tool. initcheck does not see what the copy engine writes, and would report the copy of a product to the host."""
FILLED = {"initcheck": ("three passes", "overlapped passes")}
"""By tool, what is run with `--filled`: a transposition reads there what the copy engine wrote. initcheck sees that
memory filled, and what nothing has written since is NaN in the product."""
UNKNOWN = ("not ended", "not begun")
"""In the time that there is for one, and for all; what was not begun is not in the file."""


def configurations(many_tiles: bool) -> list[str]:
    """The names of all that this device has for those products of sanitize.py, and what that has beside products."""
    found: dict[str, None] = {}
    of_products = problems(None, MANY_TILES if many_tiles else PATTERNS)
    for (entries, batch, _, _), dtype, layout in itertools.product(of_products, DTYPES.values(), LAYOUTS):
        x, weight = unfilled(Problem(Pattern(*entries), batch, dtype, layout, "cuda"), *ORDERS[0])
        found.update(dict.fromkeys(name for name, _ in numbers_of(x, weight, layout, None)))
    return [*found] if many_tiles else [*found, "chains", "gradients"]


def sanitized(name: str, arguments: argparse.Namespace) -> dict[str, object]:
    """The line of one configuration."""
    command = ["compute-sanitizer", "--tool", arguments.tool, *OPTIONS.get(arguments.tool, [])]
    command += ["--error-exitcode", str(ERRORS), sys.executable, str(SCRIPT), *name.split()]
    command += ["--products", str(arguments.products)]
    command += ["--many-tiles"] if arguments.many_tiles else []
    command += ["--filled"] if name in FILLED.get(arguments.tool, ()) else []
    start = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=arguments.seconds)
            result = RESULTS.get(process.returncode, f"exit status {process.returncode}")
            if process.returncode == 0 and not CLEAN.search(output):
                result = RESULTS[ERRORS]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            result = UNKNOWN[0]
    products = re.search(r"of (\d+) products wrong", output)
    said = [line.strip("= ").strip() for line in output.splitlines() if re.search("SUMMARY|[Ee]rror", line)]
    return {
        "configuration": name,
        "tool": arguments.tool,
        "result": result,
        "products": products[1] if products else "",
        "seconds": round(time.monotonic() - start),
        "said": "; ".join(said[-3:]),
    }


def add_lines(arguments: argparse.Namespace) -> list[dict[str, object]]:
    """All lines of the file, once those that it did not have are in it, and one for each that was not begun."""
    lines: list[dict[str, object]] = []
    if arguments.output.exists():
        with arguments.output.open(newline="", encoding="utf-8") as file:
            lines += csv.DictReader(file)
    known = {line["configuration"] for line in lines}
    names = [name for name in configurations(arguments.many_tiles) if name not in known]
    end, one_at_a_time = time.monotonic() + arguments.max_seconds, threading.Lock()
    with arguments.output.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not lines:
            writer.writeheader()

        def run(name: str) -> None:
            begins = time.monotonic() < end
            line = sanitized(name, arguments) if begins else {"configuration": name, "result": UNKNOWN[1]}
            with one_at_a_time:
                lines.append(line)
                if begins:
                    writer.writerow(line)
                    file.flush()

        with ThreadPoolExecutor(arguments.processes) as pool:
            list(pool.map(run, names))
    return lines


def main() -> int:
    """1 where the file tells of an error, 2 where the kernel cannot be run, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--tool", choices=("memcheck", "racecheck", "synccheck", "initcheck"), default="memcheck")
    parser.add_argument("--products", type=int, default=2, help="of each configuration, at most")
    parser.add_argument("--many-tiles", action="store_true", help="those of several tiles for each block")
    parser.add_argument("--seconds", type=float, default=120, help="for each configuration, at most")
    parser.add_argument("--processes", type=int, default=8, help="side by side")
    parser.add_argument("--max-seconds", type=float, default=float("inf"), help="nothing begins after that")
    arguments = parser.parse_args()
    reason = reason_missing()
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
        return 2
    lines = add_lines(arguments)
    counts = collections.Counter(line["result"] for line in lines)
    sys.stdout.write(f"{arguments.tool}: {dict(counts)}\n")
    return 0 if set(counts) <= {RESULTS[0], *UNKNOWN} else 1


if __name__ == "__main__":
    sys.exit(main())
