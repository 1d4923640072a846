"""`dense`: ignores the sparsity, multiplies by the whole matrix (Section 2.1, appendix D.1)."""

from __future__ import annotations

import torch

from ksmm.implementations.base import Implementation, Packed, register
from ksmm.problem import Problem
from ksmm.reference import pattern_of, to_dense


@register
class Dense(Implementation):
    """torch.nn.functional.linear in batch_first, torch.matmul in batch_last, zeros included."""

    name = "dense"

    def supports(self, problem: Problem) -> str | None:
        return None

    def pack(self, weight: torch.Tensor, layout: str) -> Packed:
        return Packed(pattern_of(weight), layout, to_dense(weight))

    def matmul(self, packed: Packed, x: torch.Tensor) -> torch.Tensor:
        if packed.layout == "batch_first":
            return torch.nn.functional.linear(x, packed.data)
        return torch.matmul(packed.data, x)
