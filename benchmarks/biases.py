"""What a bias costs: the kernel with one, added on the way out, over the kernel without.

    python benchmarks/biases.py --dtype float16 > biases.csv

A row for each pattern and layout; `chosen` is the configuration, the same for both. Both are measured in turns, so many
rounds, and the times are their medians. Products below 200 µs are replayed from a CUDA graph. Let nothing else use the
processors meanwhile: longer products wait for the host when it is busy.
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
    """The product with a bias, and without."""
    bias = torch.randn(packed.pattern.rows, device=x.device).to(x.dtype)
    return functools.partial(kernel.matmul_bias, packed, x, bias), functools.partial(kernel.matmul, packed, x)


if __name__ == "__main__":
    compare(__doc__, products)
