"""`bmm_strided`: batched matrix products on strided views of X and Y, which copy nothing.

For fixed (i, j), X[i, :, j, :] in batch_last is a c × B matrix whose rows lie d·B apart and whose columns are
contiguous: an ordinary matrix-product operand with a leading dimension. The same holds of Y. In batch_first this
needs d = 1, since for d > 1 no dimension of X[:, i, :, j] is contiguous.
"""

from __future__ import annotations

import torch

from ksmm.implementations.base import Implementation, Packed, register
from ksmm.problem import Problem
from ksmm.reference import pattern_of


@register
class BmmStrided(Implementation):
    """torch.bmm from a view of X to a view of Y; a loop over i where both a > 1 and d > 1."""

    name = "bmm_strided"
    differentiable = False

    def supports(self, problem: Problem) -> str | None:
        if problem.layout == "batch_first" and problem.pattern.d > 1:
            return (
                f"batch_first with d = {problem.pattern.d}: X[:, i, :, j] has no contiguous dimension, "
                "so a matrix product cannot read it without a copy"
            )
        return None

    def pack(self, weight: torch.Tensor, layout: str) -> Packed:
        return Packed(pattern_of(weight), layout, weight.permute(0, 3, 1, 2).contiguous())  # (a, d, b, c)

    def matmul(self, packed: Packed, x: torch.Tensor) -> torch.Tensor:
        a, b, c, d = packed.pattern
        if packed.layout == "batch_first":
            y = x.new_empty(x.shape[0], a, b)
            blocks = packed.data.view(a, b, c)
            _multiply(x.view(-1, a, c).transpose(0, 1), blocks.transpose(1, 2), y.transpose(0, 1))
            return y.view(-1, a * b)
        batch = x.shape[1]
        x = x.view(a, c, d, batch)
        y = x.new_empty(a, b, d, batch)
        if d == 1:
            _multiply(packed.data.view(a, b, c), x.view(a, c, batch), y.view(a, b, batch))
        else:
            for i in range(a):
                _multiply(packed.data[i], x[i].transpose(0, 1), y[i].transpose(0, 1))
        return y.view(a * b * d, batch)


def _multiply(left: torch.Tensor, right: torch.Tensor, y: torch.Tensor) -> None:
    """Writes the products to a view of Y; while a graph is traced, by a copy, since Dynamo refuses such an `out`."""
    if torch.compiler.is_compiling():
        y.copy_(torch.bmm(left, right))
    else:
        torch.bmm(left, right, out=y)
