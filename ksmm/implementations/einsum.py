"""`einsum`: one tensor contraction over the canonical weight (appendix D.1), through einops."""

from __future__ import annotations

import einops
import torch

from ksmm.implementations.base import Implementation, Packed, register
from ksmm.problem import Problem
from ksmm.reference import pattern_of


@register
class Einsum(Implementation):
    """Contracts the weight (a, b, c, d) with x viewed as (B, a, c, d), or (a, c, d, B)."""

    name = "einsum"

    def supports(self, problem: Problem) -> str | None:
        return None

    def pack(self, weight: torch.Tensor, layout: str) -> Packed:
        return Packed(pattern_of(weight), layout, weight.contiguous())

    def matmul(self, packed: Packed, x: torch.Tensor) -> torch.Tensor:
        a, _, c, d = packed.pattern
        if packed.layout == "batch_first":
            x = einops.rearrange(x, "n (a c d) -> n a c d", a=a, c=c, d=d)
            y = einops.einsum(x, packed.data, "n a c d, a b c d -> n a b d")
            return einops.rearrange(y, "n a b d -> n (a b d)")
        x = einops.rearrange(x, "(a c d) n -> a c d n", a=a, c=c, d=d)
        y = einops.einsum(x, packed.data, "a c d n, a b c d -> a b d n")
        return einops.rearrange(y, "a b d n -> (a b d) n")
