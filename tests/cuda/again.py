"""Products of the CUDA kernel that are made twice and compared bit by bit, for so many seconds; several of these side
by side on one GPU stop each other's kernels anywhere, and make waits long that are short otherwise:

    for seed in 0 1 2 3 4 5 6 7; do python tests/cuda/again.py 60 $seed & done; wait

An even seed makes one product alone, whose rows of X were once overwritten while they were read (docs/planes.md, "What
is given back"; on Hopper, which has its configuration); an odd one takes configurations of every family at random,
chains and gradients of weights among them. Exit status 1 after a product that was not the same twice, or not close to
float64, and 2 where the kernel cannot be run.
"""

from __future__ import annotations

import argparse
import functools
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

from ksmm import Pattern
from ksmm.problem import DTYPES, LAYOUTS, Problem
from ksmm.reference import relative_error
from tests.cuda.products import inputs, number_of, stored_as
from tests.cuda.sanitize import CHAINS, GRADIENTS, TOLERANCES, of_hopper, operands, reason_missing
from tests.shapes import beginning_elsewhere, bias_of, expected, poison

PATTERNS = [
    *[(3, 200, 72, d) for d in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 40)],
    *[(2, 64, 136, d) for d in (1, 2, 4, 8, 16, 32)],
    *[(1, 192, 192, d) for d in (2, 4, 6, 12, 48)],
    *[(6, 264, 16, 2), (2, 96, 96, 6), (40, 64, 64, 1)],
]
BATCHES = (17, 130, 1_001, 4_001)
PAIRS = 20
"""Of each choice."""
KNOWN = (Pattern(3, 200, 72, 8), 10_001, torch.float16, "batch_first", "planes j8 r40 k16 prepared")

Product = Callable[[torch.Tensor | None], torch.Tensor]


def known() -> tuple[str, Product, torch.Tensor]:
    """The product that once failed: its name, itself as a function of its bias, and that."""
    *of_problem, name = KNOWN
    problem = Problem(*of_problem, "cuda")
    x, weight = inputs(problem)
    stored = stored_as(weight, "packed")
    number = number_of(name, x, stored, problem.layout)

    def multiply(bias: torch.Tensor | None) -> torch.Tensor:
        poison(problem)
        return torch.ops.ksmm.ks_matmul(x, stored, problem.layout, bias, "default", number)

    return f"{problem}, {name}", multiply, bias_of(problem, True)


def any_product(choose: random.Random) -> tuple[str, Product, torch.Tensor | None]:
    """A configuration at random for a problem at random, checked against float64."""
    dtype, layout = choose.choice(list(DTYPES.values())), choose.choice(LAYOUTS)
    problem = Problem(Pattern(*choose.choice(PATTERNS)), choose.choice(BATCHES), dtype, layout, "cuda")
    x, weight = inputs(problem)
    stored = stored_as(weight, "transposed" if dtype == torch.float32 else "packed")
    number, name = choose.choice(torch.ops.ksmm.configurations(x, stored, layout)).split(" ", 1)
    bias = bias_of(problem, choose.random() < 0.75)

    def multiply(bias: torch.Tensor | None) -> torch.Tensor:
        poison(problem)
        return torch.ops.ksmm.ks_matmul(x, stored, layout, bias, "default", int(number))

    check(f"{problem}, {name}", multiply(bias), expected(x, weight, layout, bias), TOLERANCES[dtype])
    return f"{problem}, {name}", multiply, bias


def any_chain(choose: random.Random) -> tuple[str, Product, torch.Tensor | None]:
    """Two factors in one launch."""
    outer_pattern, inner_pattern = (Pattern(*entries) for entries in choose.choice(CHAINS))
    dtype, batch = choose.choice([torch.float16, torch.bfloat16]), choose.choice(BATCHES)
    last = Problem(outer_pattern, batch, dtype, "batch_first", "cuda")
    x, inner = operands(Problem(inner_pattern, batch, dtype, "batch_first", "cuda"), (0, 3, 1, 2), 0)
    _, outer = operands(last, (0, 3, 1, 2), 0)
    bias = bias_of(last, choose.random() < 0.75)

    def multiply(bias: torch.Tensor | None) -> torch.Tensor:
        poison(last)
        return torch.ops.ksmm.ks_chain(x, outer, inner, bias, launches=1)

    name = f"{outer_pattern} of {inner_pattern}, batch {batch}, {dtype}"
    between = expected(x, inner, "batch_first", None)
    check(name, multiply(bias), expected(between, outer.double(), "batch_first", bias), 2 * TOLERANCES[dtype])
    return name, multiply, bias


def any_gradient(choose: random.Random) -> tuple[str, Product, None]:
    """The gradient of a weight."""
    a, b, c, d = choose.choice(GRADIENTS)
    dtype, batch = choose.choice([torch.float16, torch.bfloat16]), choose.choice(BATCHES)
    x, y = (torch.randn(batch, a * size * d, device="cuda").to(dtype) for size in (c, b))
    name = f"gradient of {a},{b},{c},{d}, batch {batch}, {dtype}"
    of_y, of_x = y.double().view(batch, a, b, d), x.double().view(batch, a, c, d)
    check(name, torch.ops.ksmm.weight_gradient_first(x, y, a, d), torch.einsum("nirj,nikj->irkj", of_y, of_x), 2e-2)
    return name, lambda _: torch.ops.ksmm.weight_gradient_first(x, y, a, d), None


class WrongProductError(Exception):
    """A product that is not what it was, or should be."""


def check(name: str, y: torch.Tensor, reference: torch.Tensor, allowed: float) -> None:
    """Raises WrongProductError where the error is not as small as allowed; NaN is not."""
    error = relative_error(y, reference)
    if not error < allowed:
        raise WrongProductError(f"{name}: relative error {error:.2e}")


def compare(name: str, y: torch.Tensor, first: torch.Tensor) -> None:
    """Raises WrongProductError where they differ, and says in which rows and columns."""
    if torch.equal(y, first):
        return
    rows, columns = (y != first).view(len(y), -1).nonzero(as_tuple=True)
    raise WrongProductError(
        f"{name}: {len(rows)} numbers differ, in {len(rows.unique())} rows from {rows.min()} to {rows.max()} and "
        f"{len(columns.unique())} columns from {columns.min()} to {columns.max()}"
    )


def again(name: str, multiply: Product, bias: torch.Tensor | None, pairs: int) -> None:
    """So many pairs of that product, the second of each with the same bias where no vector begins.

    Each is compared with the first of its own bias: a chain may add to the other in another order.
    """
    biases = {name: bias, f"{name}, bias elsewhere": beginning_elsewhere(bias)}
    first = {way: multiply(own) for way, own in biases.items()}
    for _ in range(pairs):
        for way, own in biases.items():
            compare(way, multiply(own), first[way])


def products(seed: int) -> Callable[[], tuple[str, Product, torch.Tensor | None]]:
    """What makes the next product."""
    if seed % 2 == 0 and of_hopper():
        return functools.cache(known)
    choose = random.Random(seed)
    makers = [any_product] * 8 + ([any_chain, any_gradient] if of_hopper() else [])
    return lambda: choose.choice(makers)(choose)


def main() -> int:
    """0 if every product was the same again, 1 if one was not, 2 if the kernel cannot be run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float)
    parser.add_argument("seed", type=int)
    arguments = parser.parse_args()
    reason = reason_missing()
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
        return 2
    torch.manual_seed(arguments.seed)
    following, end, count, wrong = products(arguments.seed), time.monotonic() + arguments.seconds, 0, 0
    while time.monotonic() < end:
        try:
            again(*following(), PAIRS)
        except WrongProductError as error:
            wrong += 1
            sys.stderr.write(f"{error}\n")
        count += 1
        torch.cuda.empty_cache()  # float64 takes much, and others are on the device
    sys.stdout.write(f"seed {arguments.seed}: {wrong} of {count} products differed, made {2 * PAIRS} times or less\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
