"""`bsr`: Algorithm 1 with the block-diagonal matrix in block compressed sparse row format (appendix D.1)."""

from __future__ import annotations

import math

import torch

from ksmm.implementations.base import Implementation, Packed, register
from ksmm.implementations.compressed import BLOCK, compressed_matmul, quietly, unsupported
from ksmm.patterns import Pattern
from ksmm.problem import Problem
from ksmm.reference import pattern_of

LARGEST_BLOCK = 128
"""PyTorch's GPU routine is compiled for each block size, which at 256 in float32 takes minutes (PyTorch 2.11)."""


@register
class Bsr(Implementation):
    """Permute, multiply by PyTorch's BSR matrix, permute back.

    The format's routines want square blocks, so each b × c block is stored as (b/s) × (c/s) blocks of size s, the
    largest common divisor of b and c up to LARGEST_BLOCK. s = 1 is refused: such a matrix is CSR, which is `sparse`.
    """

    name = "bsr"
    differentiable = False

    def supports(self, problem: Problem) -> str | None:
        if block_size(problem.pattern) == 1:
            return (
                f"b = {problem.pattern.b} and c = {problem.pattern.c} have no common divisor above 1, "
                "so the matrix has no square blocks; this would be `sparse`"
            )
        return unsupported(_trial_matrix, problem.dtype, problem.device_type)

    def pack(self, weight: torch.Tensor, layout: str) -> Packed:
        return Packed(pattern_of(weight), layout, bsr_matrix(weight))

    def matmul(self, packed: Packed, x: torch.Tensor) -> torch.Tensor:
        a, b, c, d = packed.pattern
        if packed.layout == "batch_first":
            x = x.reshape(-1, a, c, d).transpose(-1, -2).reshape(-1, a * d * c)
            y = compressed_matmul(packed.data, x, packed.layout)
            return y.reshape(-1, a, d, b).transpose(-1, -2).reshape(-1, a * b * d)
        x = x.reshape(a, c, d, -1).transpose(1, 2).reshape(a * d * c, -1)
        y = compressed_matmul(packed.data, x, packed.layout)
        return y.reshape(a, d, b, -1).transpose(1, 2).reshape(a * b * d, -1)


def block_size(pattern: Pattern) -> int:
    """The side of the square blocks that tile b × c: the largest common divisor up to LARGEST_BLOCK."""
    common = math.gcd(pattern.b, pattern.c)
    return max(size for size in range(1, min(common, LARGEST_BLOCK) + 1) if common % size == 0)


def bsr_matrix(weight: torch.Tensor) -> torch.Tensor:
    """Pᵀ K Qᵀ (Algorithm 1) of a canonical weight (a, b, c, d): a·d dense b × c blocks on the diagonal, as BSR."""
    pattern = pattern_of(weight)
    a, b, c, d = pattern
    size = block_size(pattern)
    rows, columns = b // size, c // size  # in blocks, of each dense block
    values = weight.permute(0, 3, 1, 2).reshape(a * d, rows, size, columns, size).transpose(2, 3)
    device = weight.device
    column_indices = torch.arange(a * d * columns, device=device).view(a * d, 1, columns)
    column_indices = column_indices.expand(a * d, rows, columns).reshape(-1)
    row_starts = torch.arange(0, a * d * rows * columns + 1, columns, device=device)
    return quietly(
        lambda: torch.sparse_bsr_tensor(
            row_starts.int(),
            column_indices.int(),
            values.reshape(-1, size, size).contiguous(),
            (a * b * d, a * c * d),
            check_invariants=False,
        )
    )


def _trial_matrix(matrix: torch.Tensor) -> torch.Tensor:
    return matrix.to_sparse_bsr((BLOCK, BLOCK))
