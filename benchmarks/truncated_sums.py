"""Float32 as three parts of bfloat16 on matrix units that truncate, against multiply-adds: a model of it, on the CPU.

    python benchmarks/truncated_sums.py > truncated_sums.csv

Each instruction adds 16 products and the sum so far: aligned to the largest of them, cut off two bits below its last
one, and their sum cut off to float32. That gives what was measured on Hopper (docs/float32.md, "Badly scaled"). A row
for each kind of operands, number of products in a sum (c) and of those in a sum on the matrix units (`fresh`), and way
to add up; `error_over_strict`: root mean square error of sums relative to Σ|x||w|, over that of float32 multiply-adds.
"""

from __future__ import annotations

import argparse
import csv
import sys

import torch

from ksmm.cli_arguments import positive_integer

KINDS = {
    "both 10^±15": (15, 15),
    "X 10^±15": (15, 0),
    "X 10^±15, W 10^±3": (15, 3),
    "both 10^±8": (8, 8),
    "both 10^±5": (5, 5),
    "few large": None,
}
WAYS = {"as it is": (0.0, False), "products a 2^-26th larger": (2.0**-26, False), "corrections first": (0.0, True)}


def operands(kind: str, rows: int, c: int) -> tuple[torch.Tensor, torch.Tensor]:
    """X and W of sums of c products, (rows, c) in float64, exact in float32; spread as the kind says."""
    x, weight = torch.randn(rows, c), torch.empty(rows, c).uniform_(-1, 1)
    if KINDS[kind] is None:
        x = torch.where(torch.rand_like(x) < 1 / 16, x, 1e-9 * x)
    else:
        x, weight = (
            of * 10 ** torch.empty_like(of).uniform_(-decades, decades) if decades else of
            for of, decades in zip((x, weight), KINDS[kind], strict=True)
        )
    return x.float().double(), weight.float().double()


def strict(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Float32 multiply-adds in the order of k (a float64 holds their products exactly)."""
    total = torch.zeros(len(x), dtype=torch.float64)
    for k in range(x.shape[1]):
        total = (total + x[:, k] * weight[:, k]).float().double()
    return total


def in_parts(numbers: torch.Tensor, more: float = 0.0) -> list[torch.Tensor]:
    """Three parts of bfloat16, whose sum is the number; the third one of (1 + more) times it."""
    first = numbers.bfloat16().double()
    second = (numbers - first).bfloat16().double()
    return [first, second, (numbers - first - second + more * numbers).bfloat16().double()]


def cut_off(values: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
    """Towards zero, to multiples of 2^bits."""
    return torch.ldexp(torch.ldexp(values, -bits).trunc(), bits)


def instruction(total: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The sum so far and 16 products."""
    terms = torch.cat([x * weight, total[:, None]], 1)
    exponent = torch.frexp(terms.abs().amax(1)).exponent
    added = cut_off(terms, (exponent - 26)[:, None]).sum(1)
    return cut_off(added, torch.frexp(added).exponent - 24)


def by_matrix_units(x: torch.Tensor, weight: torch.Tensor, fresh: int, more: float, apart: bool) -> torch.Tensor:
    """The sums, with a new one on the matrix units for each `fresh` of c; apart: corrections join the others first."""
    of_x, of_weight = in_parts(x), in_parts(weight, more)
    total = torch.zeros(len(x), dtype=torch.float64)
    for k in range(0, x.shape[1], fresh):
        small, main = torch.zeros_like(total), torch.zeros_like(total)
        for first in range(k, min(k + fresh, x.shape[1]), 16):
            here = slice(first, first + 16)
            for one, other in ((2, 0), (0, 2), (1, 1), (1, 0), (0, 1)):
                small = instruction(small, of_x[one][:, here], of_weight[other][:, here])
            main = instruction(main, of_x[0][:, here], of_weight[0][:, here])
        if apart:
            total = ((total + small).float().double() + main).float().double()
        else:
            total = (total + (small + main).float().double()).float().double()
    return total


def main() -> None:
    """Writes CSV to the standard output, row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=positive_integer, default=5000, help="sums of each kind")
    parser.add_argument(
        "--c", nargs="+", type=positive_integer, default=[32, 48, 64, 96, 192, 1024], help="multiples of 16"
    )
    arguments = parser.parse_args()
    if wrong := [c for c in arguments.c if c < 16 or c % 16]:
        parser.error(f"--c {wrong[0]}: an instruction multiplies 16 of c, so name multiples of 16")
    torch.manual_seed(0)
    writer = csv.writer(sys.stdout)
    writer.writerow(["operands", "c", "fresh", "way", "error_over_strict"])
    for kind in KINDS:
        for c in arguments.c:
            x, weight = operands(kind, arguments.rows, c)
            exact, scale = (x * weight).sum(1), (x * weight).abs().sum(1)

            def error(total: torch.Tensor, exact: torch.Tensor = exact, scale: torch.Tensor = scale) -> float:
                return ((total - exact) / scale).square().mean().sqrt().item()

            of_strict = error(strict(x, weight))
            for fresh in (16, 32):
                for way, (more, apart) in WAYS.items():
                    found = error(by_matrix_units(x, weight, fresh, more, apart))
                    writer.writerow([kind, c, fresh, way, f"{found / of_strict:.3f}"])
            sys.stdout.flush()


if __name__ == "__main__":
    main()
