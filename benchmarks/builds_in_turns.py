"""Two builds of the kernel in turns: what one takes of the time of the other, by a benchmark script that both have.

    git worktree add ../before HEAD~1 && (cd ../before && python -m ksmm build)
    python benchmarks/builds_in_turns.py ../before . -- few_rows --dtype float32 --patterns 1,192,768,48 --batches 25088

Behind -- stands a script of this folder, without its ending, and its options. Each round runs it in both trees, in
processes of their own, in turns also as to which comes first: where that was always the same, the second took up to 1 %
longer with kernels that were the same. So rounds are best even. A row for each of its rows: the medians of the rounds,
and the second time over the first, also of the rounds where that is the least and the most: what lies between those
says nothing.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import statistics
import subprocess
import sys
from pathlib import Path

from ksmm.cli_arguments import positive_integer

Row = tuple[str, ...]


def times(tree: Path, script: str, options: list[str], column: str) -> tuple[Row, dict[Row, float]]:
    """What the columns in front of that of the time are called, and the time of each row by what they hold.

    What the cost model chose is no part of it, nor are other times: builds differ in these.

    Raises:
        ValueError: the tree has no such script, or that has no such column, no numbers in it, or rows that nothing in
            front of it tells apart.
        subprocess.CalledProcessError: the script failed; what it said is on the standard error.
    """
    path = tree.resolve() / "benchmarks" / f"{script}.py"
    if not path.exists():
        raise ValueError(f"{path} is not there; name a script of that folder, without its ending")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tree.resolve()), os.environ.get("PYTHONPATH", "")))}
    command = [sys.executable, str(path), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=tree, env=environment)
    names, *rows = list(csv.reader(io.StringIO(done.stdout))) or [[]]
    if column not in names:
        raise ValueError(f"{script} has no column {column}; name one of {', '.join(names) or 'none'} with --column")
    in_front = enumerate(names[: names.index(column)])
    keys = [number for number, name in in_front if name != "chosen" and not name.endswith("_s")]
    columns = tuple(names[key] for key in keys)
    try:
        found = {tuple(row[key] for key in keys): float(row[names.index(column)]) for row in rows}
    except ValueError as error:
        raise ValueError(f"column {column} of {script}: {error}; name one of numbers with --column") from error
    if len(found) < len(rows):
        raise ValueError(f"rows of {script} are the same in {', '.join(columns)}; ask for each of them once")
    return columns, found


def main() -> None:
    """Measures, and writes CSV to the standard output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path, help="a folder with a checkout in which the kernel is built")
    parser.add_argument("second", type=Path, help="another one")
    parser.add_argument("script", help="of benchmarks/, without .py")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="of the script")
    parser.add_argument("--rounds", type=positive_integer, default=4)
    parser.add_argument("--column", default="time_s", help="the time, behind the columns that tell rows apart")
    arguments = parser.parse_args()
    trees = (arguments.first, arguments.second)
    rounds: list[list[dict[Row, float]]] = []
    names: Row = ()
    for number in range(arguments.rounds):
        rounds.append([{}, {}])
        for at in (0, 1) if number % 2 == 0 else (1, 0):
            try:
                names, rounds[-1][at] = times(trees[at], arguments.script, arguments.options, arguments.column)
            except (ValueError, subprocess.CalledProcessError) as error:
                parser.error(str(error))
    writer = csv.writer(sys.stdout)
    writer.writerow([*names, "first_s", "second_s", "second_over_first", "least", "most"])
    of_all = [found for both in rounds for found in both]
    for row in dict.fromkeys(row for found in of_all for row in found):
        if any(row not in found for found in of_all):  # a configuration, for example
            sys.stderr.write(f"{', '.join(row)}: not in both trees, left out\n")
            continue
        pairs = [(first[row], second[row]) for first, second in rounds]
        first, second = (statistics.median(values) for values in zip(*pairs, strict=True))
        ratios = [after / before for before, after in pairs]
        writer.writerow(
            [*row, *(f"{number:.4g}" for number in (first, second, second / first, min(ratios), max(ratios)))]
        )


if __name__ == "__main__":
    main()
