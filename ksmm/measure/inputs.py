"""The operands of a problem: weights uniform in ±1/√c, X standard normal (appendix B.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ksmm.problem import Problem


@dataclass(frozen=True)
class Inputs:
    """Weights and X of one problem.

    Attributes:
        weight: canonical, shape (a, b, c, d).
        x: shape (B, a·c·d) in batch_first, (a·c·d, B) in batch_last, contiguous.
        layout: "batch_first" or "batch_last".
    """

    weight: torch.Tensor
    x: torch.Tensor
    layout: str

    @property
    def x_batch_first(self) -> torch.Tensor:
        """X as B × (a·c·d); a view."""
        return self.x if self.layout == "batch_first" else self.x.T


def make_inputs(problem: Problem, seed: int) -> Inputs:
    """Draws the operands on the problem's device, with a generator of its own.

    Both layouts of a problem get the same values: X is drawn in batch_first and then transposed. The values depend
    on the seed, the dtype and the kind of device, and on nothing drawn before.

    Raises:
        torch.OutOfMemoryError, RuntimeError, MemoryError: the operands do not fit in memory.
    """
    generator = torch.Generator(device=problem.device_type).manual_seed(seed)
    options = {"dtype": problem.dtype, "device": problem.device_type}
    bound = 1 / math.sqrt(problem.pattern.c)
    weight = torch.empty(problem.pattern.weight_shape, **options).uniform_(-bound, bound, generator=generator)
    x = torch.empty(problem.batch_size, problem.pattern.columns, **options).normal_(generator=generator)
    if problem.layout == "batch_last":
        x = x.T.contiguous()
    return Inputs(weight, x, problem.layout)


def first_of_batch(x: torch.Tensor, layout: str, count: int) -> torch.Tensor:
    """The first `count` columns or rows of X along the batch, contiguous."""
    return x[:count] if layout == "batch_first" else x[:, :count].contiguous()
