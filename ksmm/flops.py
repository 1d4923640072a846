"""What torch.utils.flop_counter says of this project's operators: two operations for each weight and row of X."""

from __future__ import annotations

import math
from collections.abc import Sequence


def of_product(x: Sequence[int], weight: Sequence[int], layout: str, *_: object, **__: object) -> int:
    """2·B·abcd, of operands of these shapes."""
    return 2 * x[0 if layout == "batch_first" else 1] * math.prod(weight)


def of_chain(x: Sequence[int], outer: Sequence[int], inner: Sequence[int], *_: object, **__: object) -> int:
    """The same of two factors in batch_first."""
    return 2 * x[0] * (math.prod(outer) + math.prod(inner))


def of_weight_gradient(x: Sequence[int], y_gradient: Sequence[int], a: int, d: int, *_: object, **__: object) -> int:
    """The same of a gradient of a weight, of X and ∂Y in batch_last: a·d products of (b, B) and (B, c)."""
    return 2 * x[1] * x[0] * y_gradient[0] // (a * d)


def of_weight_gradient_first(
    x: Sequence[int], y_gradient: Sequence[int], a: int, d: int, *_: object, **__: object
) -> int:
    """The same in batch_first."""
    return 2 * x[0] * x[1] * y_gradient[1] // (a * d)
