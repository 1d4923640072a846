"""Small products that meet every configuration of the CUDA kernel, in seconds; by hand, under compute-sanitizer:

    compute-sanitizer --tool memcheck --error-exitcode 1 python tests/cuda/sanitize.py
    compute-sanitizer --tool racecheck --error-exitcode 1 python tests/cuda/sanitize.py

With `chains` as an argument two factors in one launch alone, with `gradients` those of weights, with the name of a
configuration that alone, and with `--products 4` no more than its first four; with `--many-tiles` products of so many
tiles that a block has several, for which its ring of stages comes round (the others leave it one); with
`--badly-scaled` float32 alone, with weights that the matrix units leave alone; with `--filled` all memory that a
product gets is NaN first, so that one that reads what nothing wrote is wrong. Exit status 1 after a wrong result.
PyTorch's caching allocator is off, so that every operand is an allocation of its own and memcheck sees each access
outside of it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":
    os.environ.setdefault("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")
sys.path.insert(0, str(Path(__file__).parents[2]))

import torch  # after the variable, which the allocator reads when it starts

from ksmm import Pattern
from ksmm.implementations import get_implementation
from ksmm.problem import DTYPES, LAYOUTS, Problem
from ksmm.reference import relative_error
from tests.hard_operands import badly_scaled
from tests.shapes import bias_of, expected

TOLERANCES = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
Entries = list[tuple[int, int, int, int]]
PATTERNS: Entries = [
    # c for the matrix units in float32, in the shorter sums of one plane; rows of Y that are no multiple of 16 bytes
    *[(2, 51, 52, 1), (1, 72, 56, 4), (1, 40, 52, 3)],
    *[(2, 5, 7, 1), (2, 48, 40, 1), (1, 130, 72, 1), (2, 64, 32, 2), (2, 9, 20, 2), (2, 20, 12, 3), (2, 64, 16, 4)],
    *[(1, 9, 24, 7), (2, 40, 40, 8), (2, 33, 17, 16), (1, 64, 48, 16), (1, 24, 16, 20), (1, 64, 48, 12)],
    *[(1, 64, 24, 6), (1, 72, 16, 16), (1, 72, 40, 4), (1, 40, 36, 3), (2, 51, 36, 1)],
    # c long enough for halves of float32
    *[(1, 100, 68, 2), (2, 40, 72, 3), (1, 72, 72, 4), (1, 56, 100, 8), (1, 40, 72, 20), (2, 99, 76, 1)],
    *[(1, 72, 40, 24), (2, 136, 72, 32)],  # several clusters of blocks that exchange, along r and j
    *[(1, 192, 40, 2), (1, 48, 40, 6), (1, 48, 72, 16), (1, 128, 136, 1)],
    *[(1, 48, 24, 4), (1, 96, 24, 4)],  # strict tiles of 48 and 96 r of four planes, ...
    *[(1, 64, 24, 3), (1, 128, 24, 2)],  # ... of 64 of three, and of 128 of two
    (72, 40, 136, 1),  # more tiles than there are blocks of gemm that stay, of three stages
    *[(1, 64, 24, 5), (1, 48, 24, 7), (1, 40, 56, 6)],  # tiles of five and seven planes, and of six in float32
]
MANY_TILES: Entries = [(1200, 16, 24, d) for d in (*range(1, 9), 12, 16, 24)]
MANY_TILES += [(600, 16, 72, d) for d in (1, 2, 3, 4, 6, 8, 16)]  # c for the matrix units in float32
"""Four tiles or more for each of 132 multiprocessors; those with c = 24 have nine, of one or two stages each."""
CHAINS = [  # two factors, which one launch takes (the last one for a handful of rows)
    ((1, 40, 64, 2), (2, 64, 40, 1)),
    ((1, 200, 192, 2), (6, 64, 64, 1)),
    ((1, 192, 48, 2), (2, 48, 192, 1)),
    ((1, 136, 32, 8), (2, 128, 128, 1)),
    ((1, 64, 128, 8), (8, 128, 104, 1)),
    ((1, 40, 32, 6), (3, 64, 24, 1)),
    ((1, 72, 64, 6), (6, 64, 40, 1)),
    ((1, 8, 32, 12), (12, 32, 40, 1)),
    ((1, 24, 32, 8), (4, 64, 40, 1)),
    ((1, 40, 16, 6), (3, 32, 24, 1)),
]
GRADIENTS = [(2, 140, 68, 2), (1, 130, 70, 4), (2, 72, 65, 8), (1, 70, 40, 16), (2, 70, 40, 24), (1, 40, 70, 64)]
"""Weights whose gradients one pass takes, ragged: of each tile."""
BATCHES_OF_GRADIENTS = ((3, 1), (77, 2), (300, 17))
"""Rows, and parts of them: few and many are summed by blocks of two kinds."""
BATCHES_OF_CHAINS = (3, 12, 20, 72, 300)
BATCHES = (3, 72)
OWN_BATCHES = {
    "few": (1, 2, 17, 77),
    "overlapped passes": (300, 700),
    "overlapped passes strict": (300, 700),
    "overlapped two passes": (300, 700),
    **{f"gemm wide {columns}": (72, 392) for columns in (64, 96, 128, 192)},
    **{f"gemm single r{columns} n128": (72, 264) for columns in (48, 64, 96)},
    **{f"gemm resident {columns}": (72, 700) for columns in (128, 192)},
    **{f"shifted single r{columns}": (77, 131) for columns in (64, 128, 192)},
    "shifted r64 n128": (300, 517),
    "shifted r64 n256": (300, 517),
    "shifted r128 n256": (300, 517),
    "shifted r192 n192": (300, 517),
    "shifted r256 n128": (300, 517),
    **{f"tf32 shifted {columns}": (3, 300, 517) for columns in (48, 64, 96, 128)},
    **{f"halves shifted {columns}": (3, 300, 517) for columns in (64, 96, 128)},
    # as many as leave some to the pairs beside them
    **{f"planes j16 r{rows} k16 row{way}": (3, 1000) for rows in (32, 48) for way in ("", " prepared")},
}
"""For the configuration of that name alone: a kernel for each number of rows; parts, or tiles, of up to 256 of them."""
OWN_PATTERNS = {
    "strict": (((40, 90, 260, 1), 3203), ((40, 120, 130, 1), 3203)),
    "gemm streamed 256": (((3, 40, 200, 1), 6200), ((2, 512, 328, 1), 6200)),
    "gemm wide 192": (((1, 200, 456, 2), 392),),  # sums that are long enough for a stage more
}
"""For the configuration of that name alone, with so many rows: enough for the tiles that only large problems get, and
for pairs of blocks that keep W for the next tile."""
LARGE = {batch for own in OWN_PATTERNS.values() for _, batch in own}
ORDERS = (((0, 3, 1, 2), 0), ((0, 3, 2, 1), 0), ((0, 1, 2, 3), 1))
"""How (a, b, c, d) is stored, and how many elements into its allocation X begins."""

PORTABLE = ("strict", "small strict", "small strict 2 parts", "small strict 4 parts", "tensor")


def unfilled(problem: Problem, order: tuple[int, ...], offset: int) -> tuple[torch.Tensor, torch.Tensor]:
    """X whose storage begins `offset` elements before it and ends with it, and the weight stored in that order.

    No kernel writes into them, which the tool would look at for longer than at the products themselves.
    """
    rows, columns = problem.input_shape
    buffer = torch.empty(rows * columns + offset, device="cuda", dtype=problem.dtype)
    stored = torch.empty([problem.pattern.weight_shape[at] for at in order], device="cuda", dtype=problem.dtype)
    inverse = sorted(range(4), key=order.__getitem__)
    return buffer[offset:].view(rows, columns), stored.permute(inverse)


def operands(problem: Problem, order: tuple[int, ...], offset: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same, standard normal."""
    x, weight = unfilled(problem, order, offset)
    return x.normal_(), weight.normal_()


def on_cpu(bias: torch.Tensor | None) -> torch.Tensor | None:
    """A bias where float64 sums are compared with it."""
    return None if bias is None else bias.cpu()


def numbers_of(x: torch.Tensor, weight: torch.Tensor, layout: str, only: str | None) -> list[tuple[str, int]]:
    """The configurations that are to be tried with this x, by name; one of them only, if it is named."""
    entries = (entry.split(" ", 1) for entry in torch.ops.ksmm.configurations(x, weight, layout))
    batch = x.shape[0 if layout == "batch_first" else 1]
    return [
        (name, int(number))
        for number, name in entries
        if only in (None, name) and (batch in {*BATCHES, *LARGE} or batch in OWN_BATCHES.get(name, ()))
    ]


def problems(only: str | None, patterns: Entries) -> Iterator[tuple[tuple[int, int, int, int], int, int, str | None]]:
    """Patterns and batches, which of a pattern's batches it is, and the configuration that they are for, if for one."""
    batches = (*BATCHES, *sorted({batch for own in OWN_BATCHES.values() for batch in own}))
    wanted = batches if only is None else (*BATCHES, *OWN_BATCHES.get(only, ()))
    for name, own in OWN_PATTERNS.items() if patterns is PATTERNS else ():
        if only in (None, name):
            yield from ((entries, batch, index, name) for index, (entries, batch) in enumerate(own))
    for entries in patterns:
        yield from ((entries, batch, index, only) for index, batch in enumerate(batches) if batch in wanted)


def wrong_products(only: str | None, most: int | None, is_badly_scaled: bool, patterns: Entries) -> tuple[int, int]:
    """How many products were wrong, of how many; of one configuration only, if it is named, and of so many at most."""
    dtypes = [torch.float32] if is_badly_scaled else DTYPES.values()
    wrong = count = 0
    all_problems = problems(only, patterns)
    for (entries, batch, index, name_of_one), dtype, layout in itertools.product(all_problems, dtypes, LAYOUTS):
        problem = Problem(Pattern(*entries), batch, dtype, layout, "cuda")
        for order, offset in ORDERS if index else ORDERS[:2]:
            numbers = numbers_of(*unfilled(problem, order, offset), layout, name_of_one)
            if order != ORDERS[0][0]:  # the others only ever see weights in the first order
                numbers = [(name, number) for name, number in numbers if name in PORTABLE]
            if not numbers:
                continue
            x, weight = operands(problem, order, offset)
            if is_badly_scaled:
                weight.mul_(badly_scaled(torch.ones_like(weight)))
            bias = bias_of(problem, index % 2 == 0)
            reference = expected(x.cpu(), weight.cpu(), layout, on_cpu(bias))
            for name, number in numbers:
                y = torch.ops.ksmm.ks_matmul(x, weight, layout, bias, "default", number)
                _, kept = torch.ops.ksmm.keep(x, weight, layout, "default", number)
                again = torch.ops.ksmm.ks_matmul_kept(x, weight, layout, bias, "default", number, kept) if kept else y
                found = y.cpu()  # a kernel that compares would read what initcheck does not see written
                error = relative_error(found, reference)
                count += 1
                if not (error < TOLERANCES[dtype] and torch.equal(again.cpu(), found)):
                    wrong += 1
                    sys.stderr.write(f"{problem}, {name}: relative error {error:.2e}, or another with what is kept\n")
                if count == most:
                    return wrong, count
    return wrong, count


def wrong_chains() -> tuple[int, int]:
    """How many products of two factors were wrong, of how many."""
    wrong = count = 0
    for entries in CHAINS:
        outer_pattern, inner_pattern = (Pattern(*pattern) for pattern in entries)
        for dtype in (torch.float16, torch.bfloat16):
            for batch in BATCHES_OF_CHAINS:
                x, inner = operands(Problem(inner_pattern, batch, dtype, "batch_first", "cuda"), *ORDERS[0])
                _, outer = operands(Problem(outer_pattern, batch, dtype, "batch_first", "cuda"), *ORDERS[0])
                bias = bias_of(Problem(outer_pattern, batch, dtype, "batch_first", "cuda"), batch % 8 == 4)
                between = expected(x.double().cpu(), inner.double().cpu(), "batch_first", None)
                reference = expected(between, outer.double().cpu(), "batch_first", on_cpu(bias))
                error = relative_error(torch.ops.ksmm.ks_chain(x, outer, inner, bias, launches=1).cpu(), reference)
                count += 1
                if not error < 2 * TOLERANCES[dtype]:
                    wrong += 1
                    sys.stderr.write(f"{entries}, batch {batch}, {dtype}: relative error {error:.2e}\n")
    return wrong, count


def of_hopper() -> bool:
    """Whether the device has the instructions that one pass over X and the gradient of Y needs."""
    return torch.cuda.get_device_capability() == (9, 0)


def wrong_gradients() -> tuple[int, int]:
    """How many gradients of weights in batch_first were wrong, of how many."""
    wrong = count = 0
    for (a, b, c, d), dtype in itertools.product(GRADIENTS, (torch.float16, torch.bfloat16)):
        for batch, parts in BATCHES_OF_GRADIENTS:
            x, y = (torch.randn(batch, a * size * d, device="cuda").to(dtype) for size in (c, b))
            of_y, of_x = y.double().view(batch, a, b, d), x.double().view(batch, a, c, d)
            reference = torch.einsum("nirj,nikj->irkj", of_y.cpu(), of_x.cpu())
            found = torch.ops.ksmm.weight_gradient_first(x, y, a, d, parts)
            error = relative_error(found.cpu(), reference)
            count += 1
            if not error < TOLERANCES[dtype]:
                wrong += 1
                sys.stderr.write(f"gradient of {a},{b},{c},{d}, batch {batch}, {dtype}: relative error {error:.2e}\n")
    return wrong, count


def reason_missing() -> str | None:
    """None where the kernel's operators are there, with a device for them; they are loaded with that."""
    if not torch.cuda.is_available():
        return "no CUDA device"
    return get_implementation("kernel").supports(Problem(Pattern(1, 1, 1, 1), 1, torch.float32, "batch_first", "cuda"))


def main() -> int:
    """0 if every product is right, 1 if one is wrong, 2 if there is none, or the kernel cannot be run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", help="chains, gradients, or the words of a configuration's name")
    parser.add_argument("--products", type=int, help="at most so many, of one factor")
    parser.add_argument("--badly-scaled", action="store_true", help="float32 whose weights are 10^±15 apart")
    parser.add_argument("--many-tiles", action="store_true", help="several tiles for each block")
    parser.add_argument("--filled", action="store_true", help="memory is NaN until it is written")
    arguments = parser.parse_args()
    reason = reason_missing()
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
        return 2
    torch.use_deterministic_algorithms(arguments.filled)  # which fills what it allocates, bytes with ones
    torch.manual_seed(torch.seed() % 2**31)
    only = " ".join(arguments.name) or None
    spread, patterns = arguments.badly_scaled, MANY_TILES if arguments.many_tiles else PATTERNS
    all_kinds = only is None and not spread and patterns is PATTERNS
    counts = [wrong_chains()] if all_kinds or only == "chains" else []
    counts += [wrong_gradients()] if (all_kinds or only == "gradients") and of_hopper() else []
    if only not in ("chains", "gradients"):
        counts.append(wrong_products(only, arguments.products, spread, patterns))
    wrong, count = (sum(numbers) for numbers in zip(*counts, strict=True))
    if count == 0:
        sys.stderr.write(f"{only}: no product here is of a configuration of that name\n")
        return 2
    sys.stdout.write(f"{wrong} of {count} products wrong (seed {torch.initial_seed()})\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
