"""What is saved by keeping what a configuration makes of a weight: packed for many products, over packed for one.

    python benchmarks/kept_weights.py --dtype float16 > kept.csv

Columns and rounds as for biases.py; only some configurations make anything of a weight, on Hopper, and nothing does on
a CPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from side_by_side import compare

from ksmm.implementations import Implementation, Packed


def products(
    kernel: Implementation, packed: Packed, x: torch.Tensor
) -> tuple[Callable[[], object], Callable[[], object]]:
    """The product with a packed weight that keeps what is made of it, and with the same that does not."""
    once = Packed(packed.pattern, packed.layout, packed.data)
    return functools.partial(kernel.matmul, packed, x), functools.partial(kernel.matmul, once, x)


if __name__ == "__main__":
    compare(__doc__, products)
