"""`bmm`: permute, batched matrix product, permute back (Algorithm 1, appendix D.1), for every a and d."""

from __future__ import annotations

import torch

from ksmm.implementations.base import Implementation, Packed, register
from ksmm.problem import Problem
from ksmm.reference import pattern_of


@register
class Bmm(Implementation):
    """Dao et al.'s Monarch product, extended as in the paper; three passes over memory in general.

    `permute`, `multiply` and `permute_back` are lines 1, 2 and 3 of Algorithm 1; the study of memory rewritings
    (appendix B.2) times line 2 alone.
    """

    name = "bmm"

    def supports(self, problem: Problem) -> str | None:
        return None

    def pack(self, weight: torch.Tensor, layout: str) -> Packed:
        a, b, c, d = pattern_of(weight)
        blocks = weight.permute(0, 3, 1, 2).reshape(a * d, b, c).contiguous()
        return Packed(pattern_of(weight), layout, blocks)

    def matmul(self, packed: Packed, x: torch.Tensor) -> torch.Tensor:
        return self.permute_back(packed, self.multiply(packed, self.permute(packed, x)))

    def permute(self, packed: Packed, x: torch.Tensor) -> torch.Tensor:
        """Line 1: x to shape (a·d, B, c) in batch_first, (a·d, c, B) in batch_last."""
        a, _, c, d = packed.pattern
        if packed.layout == "batch_first":
            return x.reshape(-1, a, c, d).transpose(-1, -2).reshape(-1, a * d, c).contiguous().transpose(0, 1)
        return x.reshape(a, c, d, -1).transpose(1, 2).reshape(a * d, c, -1)

    def multiply(self, packed: Packed, x: torch.Tensor) -> torch.Tensor:
        """Line 2: a·d products with b × c blocks; to shape (a·d, B, b), or (a·d, b, B)."""
        if packed.layout == "batch_first":
            return torch.bmm(x, packed.data.transpose(-1, -2))
        return torch.bmm(packed.data, x)

    def permute_back(self, packed: Packed, y: torch.Tensor) -> torch.Tensor:
        """Line 3: to shape (B, a·b·d), or (a·b·d, B)."""
        a, b, _, d = packed.pattern
        if packed.layout == "batch_first":
            return y.transpose(0, 1).reshape(-1, a, d, b).transpose(-1, -2).reshape(-1, a * b * d)
        return y.reshape(a, d, b, -1).transpose(1, 2).reshape(a * b * d, -1)
