"""What the host takes to ask for a product, in microseconds: tiny layers, KSLinear beside nn.Linear.

    python benchmarks/host_time.py --device cuda

On a GPU the products wait in its queue, and the times are those of asking; on a CPU those of products of a few numbers
are in them. Takes turns, and keeps the shortest of several times of each.
"""

from __future__ import annotations

import argparse
import csv
import functools
import sys
import time
from collections.abc import Callable

import torch
from side_by_side import add_device

from ksmm import KSLinear
from ksmm.cli_arguments import positive_integer
from ksmm.problem import DTYPES

CHAINS = {"one factor": [(1, 8, 8, 2)], "two factors": [(1, 8, 8, 2), (2, 8, 8, 1)]}


def layers(device: str, dtype: torch.dtype) -> dict[str, torch.nn.Module]:
    """The layers by name, all of 16 features."""
    made = {"nn.Linear": torch.nn.Linear(16, 16, device=device, dtype=dtype)}
    for name, chain in CHAINS.items():
        made[f"KSLinear, {name}"] = KSLinear(chain, device=device, dtype=dtype)
        made[f"KSLinear, {name}, frozen"] = KSLinear(chain, device=device, dtype=dtype).eval().freeze()
    return made


def seconds_of_call(run: Callable[[], object], calls: int) -> float:
    """Mean seconds of a call; few enough that a GPU's queue has room for them."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def main() -> None:
    """Measures and writes CSV to the standard output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_device(parser, default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float32", choices=list(DTYPES))
    parser.add_argument("--rows", type=positive_integer, default=1)
    parser.add_argument("--calls", type=positive_integer, default=200)
    parser.add_argument("--rounds", type=positive_integer, default=200)
    arguments = parser.parse_args()
    x = torch.randn(arguments.rows, 16, device=arguments.device).to(DTYPES[arguments.dtype])
    made = layers(arguments.device, x.dtype)
    shortest = dict.fromkeys(made, float("inf"))
    with torch.no_grad():
        for _ in range(arguments.rounds + 1):  # the first is slow, and never the shortest
            for name, layer in made.items():
                shortest[name] = min(shortest[name], seconds_of_call(functools.partial(layer, x), arguments.calls))
    writer = csv.writer(sys.stdout)
    writer.writerow(["layer", "device", "microseconds"])
    for name, seconds in shortest.items():
        writer.writerow([name, arguments.device, f"{seconds * 1e6:.2f}"])


if __name__ == "__main__":
    main()
